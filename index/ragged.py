"""Append-only, memory-mapped [n, D] fp16 arrays with n of their own (captions): an index slab beside the words."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from index.slab import RowNumbers

Half = npt.NDArray[np.float16]


class RaggedSlab:
    """As Slab, for arrays of differing length."""

    @classmethod
    def open(cls, folder: Path, width: int, write: bool) -> "RaggedSlab":
        """Open, and create when `write`, arrays of `width` columns."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the files; arrays read stay valid."""
        raise NotImplementedError

    def __len__(self) -> int:
        """Whole records in the file now, committed or not."""
        raise NotImplementedError

    def append(self, at: int, arrays: Sequence[npt.NDArray[np.floating]]) -> None:
        """Write [n, width] arrays as rows at .. at+len(arrays), over whatever lies there; on disk when it returns."""
        raise NotImplementedError

    def read(self, rows: RowNumbers) -> list[Half]:
        """Copies of the rows, one [n, width] array each, in the order asked; IndexError past the end."""
        raise NotImplementedError

    def check(self, row: int) -> None:
        """Raise Corrupt, naming the row, when its bytes do not match their checksum."""
        raise NotImplementedError

    def sound_length(self, count: int) -> int:
        """The largest number of rows <= count whose tail checks."""
        raise NotImplementedError
