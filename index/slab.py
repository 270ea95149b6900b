"""Append-only, memory-mapped records of one fixed size: 64-byte aligned, contiguous, each with its CRC32."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Layout: TypeAlias = Mapping[str, tuple[tuple[int, ...], str]]
"""field -> (shape of one record's array, numpy dtype), such as {"features": ((36, 1280), "f2")}."""
Arrays: TypeAlias = dict[str, npt.NDArray[Any]]
RowNumbers: TypeAlias = Sequence[int] | npt.NDArray[np.integer[Any]]


class Corrupt(Exception):
    """Stored bytes are not what was written; the message names the place."""


class LayoutMismatch(ValueError):
    """The folder holds records of another layout or format."""


class Slab:
    """The slab does not know how many of its records count: the catalog, or a view's manifest, does."""

    @classmethod
    def open(cls, folder: Path, layout: Layout, write: bool) -> "Slab":
        """Open, and create when `write`. LayoutMismatch for another layout, FileNotFoundError for none."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the file; arrays read stay valid."""
        raise NotImplementedError

    def __len__(self) -> int:
        """Whole records in the file now, committed or not."""
        raise NotImplementedError

    def append(self, at: int, records: Mapping[str, npt.NDArray[Any]]) -> None:
        """Write [n, ...] arrays as rows at .. at+n, over whatever lies there; on disk when it returns.

        Corrupt when there are fewer than `at` rows, ValueError for wrong fields or shapes.
        """
        raise NotImplementedError

    def read(
        self,
        rows: RowNumbers,
        out: Mapping[str, npt.NDArray[Any]] | None = None,
        fields: Sequence[str] | None = None,
    ) -> Arrays:
        """Copies of the rows, [len(rows), ...] a field, in the order asked; IndexError past the end.

        `out`: buffers of at least len(rows) to fill (its keys choose the fields, its dtypes convert); what
        comes back are views of them. `fields`: which to read when there is no `out`.
        """
        raise NotImplementedError

    def field(self, name: str, start: int, stop: int) -> npt.NDArray[Any]:
        """A copy of one field of rows start .. stop, [stop - start, ...]."""
        raise NotImplementedError

    def check(self, row: int) -> None:
        """Raise Corrupt, naming the row, when its bytes do not match their checksum."""
        raise NotImplementedError

    def sound_length(self, count: int) -> int:
        """The largest number of rows <= count whose tail checks."""
        raise NotImplementedError
