"""Stage one: which rows' embeddings have the largest inner product with a query's."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


class Shortlist:
    """Immutable: `extended` gives a new one that shares what is large. Safe to search from any thread."""

    @classmethod
    def empty(cls, dim: int, *, ivf_from: int = 100_000) -> "Shortlist":
        """No rows. Exact (flat) search up to `ivf_from` rows, inverted lists (approximate) beyond."""
        raise NotImplementedError

    def __len__(self) -> int:
        """Number of rows."""
        raise NotImplementedError

    def extended(self, embeddings: Floats) -> "Shortlist":
        """A shortlist with the [n, dim] float32 embeddings as the next rows; self is unchanged."""
        raise NotImplementedError

    def search(
        self, query: Floats, k: int, allowed: npt.NDArray[np.bool_] | None = None
    ) -> tuple[Floats, npt.NDArray[np.int64]]:
        """The best k of the allowed rows for each of [Q, dim] queries: scores [Q, k] descending, rows [Q, k].

        Where fewer are allowed, the rest is -1 (score -inf). `allowed` may be shorter than the shortlist (rows
        past its end are not allowed) or longer. Equal scores come in order of row.
        """
        raise NotImplementedError
