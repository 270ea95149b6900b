"""Stage one: which rows' embeddings have the largest inner product with a query's."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import faiss
import numpy as np
import numpy.typing as npt

from index.records import Mask

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

untyped: Any = faiss  # its stubs know the C++ constructors, not the Python ones

IVF_FROM = 100_000  # rows from which a part is searched approximately
GROWTH = 8  # the newest parts are merged with the one before them when they reach an eighth of its rows
PROBED = 1 / 8  # share of the rows that a search of inverted lists compares with
RETRAINED = 4  # inverted lists are trained anew when the rows have grown this many times
TRAINING_ROWS_PER_LIST = 64


@dataclass(frozen=True)
class Part:
    """Consecutive rows in one FAISS index that is never added to again: FAISS cannot search while adding."""

    index: Any
    trained_on: int  # number of rows that an inverted-list (IVF) index was trained on, 0 for a flat one

    def __len__(self) -> int:
        """Number of rows."""
        return int(self.index.ntotal)

    def search(self, query: Floats, k: int, allowed: Mask | None) -> tuple[Floats, Ints]:
        """Scores and rows [Q, min(k, rows allowed)] of the best allowed rows, numbered from the part's start."""
        num_allowed = len(self) if allowed is None else int(np.count_nonzero(allowed))
        k = min(k, num_allowed)
        if k == 0:
            return np.empty((len(query), 0), np.float32), np.empty((len(query), 0), np.int64)
        # Without a selector FAISS may use one matrix product for many queries.
        chosen = {}
        if allowed is not None and num_allowed < len(self):
            chosen["sel"] = untyped.IDSelectorBitmap(np.packbits(allowed, bitorder="little"))
        if not self.trained_on:
            return self._run(query, k, untyped.SearchParameters(**chosen))
        # A filter must not cost recall: the fewer rows pass, the more lists are looked through, at last all.
        share = max(PROBED * len(self), 8 * k) / num_allowed
        lists = min(self.index.nlist, math.ceil(share * self.index.nlist))
        scores, rows = self._run(query, k, untyped.SearchParametersIVF(nprobe=lists, **chosen))
        if (rows < 0).any():
            return self._run(query, k, untyped.SearchParametersIVF(nprobe=self.index.nlist, **chosen))
        return scores, rows

    def _run(self, query: Floats, k: int, params: Any) -> tuple[Floats, Ints]:
        scores, rows = self.index.search(query, k, params=params)
        return scores, rows

    def vectors(self) -> Floats:
        """[rows, dim] embeddings; those of a flat index are not copied and are valid while the index lives."""
        if not self.trained_on:
            flat = faiss.rev_swig_ptr(self.index.get_xb(), self.index.ntotal * self.index.d)
            return np.asarray(flat, np.float32).reshape(-1, self.index.d)
        copy = untyped.clone_index(self.index)  # the direct map is made on a copy: others search the original
        copy.make_direct_map()
        return np.asarray(copy.reconstruct_n(0, len(self)), np.float32)


def merged(parts: Sequence[Part], fresh: Floats, ivf_from: int) -> Part:
    """One part with the rows of all parts in their order, then the fresh rows; IVF from `ivf_from` rows on."""
    total = sum(map(len, parts)) + len(fresh)
    if parts and parts[0].trained_on and total <= RETRAINED * parts[0].trained_on:
        index = faiss.clone_index(parts[0].index)
        for rows in [*(part.vectors() for part in parts[1:]), fresh]:
            index.add(rows)
        return Part(index, parts[0].trained_on)
    # The parts outlive the call, and so do the vectors seen through them.
    rows = np.concatenate([*(part.vectors() for part in parts), fresh])
    return inverted_part(rows) if total >= ivf_from else flat_part(rows)


def flat_part(rows: Floats) -> Part:
    """A part that is searched exactly."""
    index = faiss.IndexFlatIP(rows.shape[1])
    index.add(rows)
    return Part(index, trained_on=0)


def inverted_part(rows: Floats) -> Part:
    """A part that is searched approximately, trained with about sqrt(rows) inverted lists."""
    dim = rows.shape[1]
    num_lists = max(1, math.isqrt(len(rows)))
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(dim), dim, num_lists, faiss.METRIC_INNER_PRODUCT)
    index.cp.max_points_per_centroid = TRAINING_ROWS_PER_LIST
    index.cp.min_points_per_centroid = 1  # says nothing about small stores
    index.train(rows)
    index.add(rows)
    return Part(index, trained_on=len(rows))


class Shortlist:
    """Embeddings to search by inner product. Immutable, so it is safe to search from any thread.

    `extended` gives a new shortlist that shares what is large. Rows lie in a few parts, each several times larger
    than the next (one main part and small newer ones), so that a row is copied a bounded number of times however
    slowly the shortlist grows.
    """

    def __init__(self, dim: int, parts: Sequence[Part] = (), ivf_from: int = IVF_FROM) -> None:
        """A shortlist of [rows, dim] parts; merged parts are exact (flat) below `ivf_from` rows, IVF from there on."""
        self.dim = dim
        self.parts = tuple(parts)
        self._ivf_from = ivf_from

    def __len__(self) -> int:
        """Number of rows."""
        return sum(map(len, self.parts))

    def extended(self, embeddings: Floats) -> Self:
        """A shortlist with [n, dim] float32 embeddings as the next rows; ValueError for another width."""
        if embeddings.ndim != 2 or embeddings.shape[1] != self.dim:
            raise ValueError(f"embeddings are [n, {self.dim}], not {list(embeddings.shape)}")
        if len(embeddings) == 0:
            return self
        fresh = np.ascontiguousarray(embeddings, np.float32)
        kept, size = list(self.parts), len(fresh)
        absorbed: list[Part] = []
        while kept and len(kept[-1]) <= GROWTH * size:
            size += len(kept[-1])
            absorbed.insert(0, kept.pop())
        return type(self)(self.dim, [*kept, merged(absorbed, fresh, self._ivf_from)], self._ivf_from)

    def search(self, query: Floats, k: int, allowed: Mask | None = None) -> tuple[Floats, Ints]:
        """The best k of the allowed rows for each of [Q, dim] queries: scores [Q, k] descending, rows [Q, k].

        Where fewer are allowed, the rest is -1 (score -inf). `allowed` may be shorter than the shortlist (rows
        past its end are not allowed) or longer. Equal scores come in order of row.
        """
        if query.ndim != 2 or query.shape[1] != self.dim or k < 1:
            raise ValueError(f"a query is [Q, {self.dim}] and k at least 1, not {list(query.shape)}, {k}")
        query = np.ascontiguousarray(query, np.float32)
        found_scores = [np.full((len(query), k), -np.inf, np.float32)]
        found_rows = [np.full((len(query), k), -1, np.int64)]
        start = 0
        for part in self.parts:
            stop = start + len(part)
            scores, rows = part.search(query, k, None if allowed is None else _cut(allowed, start, stop))
            found_scores.append(np.where(rows < 0, np.float32(-np.inf), scores))
            found_rows.append(np.where(rows < 0, -1, rows + start))
            start = stop
        return _best(np.concatenate(found_scores, axis=1), np.concatenate(found_rows, axis=1), k)


def _cut(allowed: Mask, start: int, stop: int) -> Mask:
    """[stop - start] the part's share, False past the end of `allowed`."""
    share = allowed[start:stop]
    return np.pad(share, (0, stop - start - len(share)))


def _best(scores: Floats, rows: Ints, k: int) -> tuple[Floats, Ints]:
    order = np.lexsort((rows, -scores), axis=-1)[:, :k]
    return np.take_along_axis(scores, order, axis=1), np.take_along_axis(rows, order, axis=1)
