"""Append-only, memory-mapped [n, D] fp16 arrays of varying n (captions)."""

import os
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from index.fault_points import FaultPoint, reach
from index.files import sync_folder, write_at, zero
from index.views.slab import Corrupt, DamagedRow, Mapped, RowNumbers, Slab, aligned, valid_prefix

Half: TypeAlias = npt.NDArray[np.float16]


class RaggedSlab:
    """Arrays of differing length: a slab of (offset, length) pairs beside one file of 64-byte aligned rows."""

    def __init__(self, folder: Path, width: int, write: bool) -> None:
        """Internal: use RaggedSlab.open instead."""
        self.folder = folder
        self._width = width
        # "words" is empty: its shape records the width in the header, so that another width is refused.
        layout = {
            "offset": ((), "<i8"),
            "length": ((), "<i8"),
            "words_crc32": ((), "<u4"),
            "words": ((0, width), "<f2"),
        }
        self._places = Slab.open(folder, layout, write)
        self._words = Mapped(folder / "words.bin", write)
        if write:
            sync_folder(folder)

    @classmethod
    def open(cls, folder: Path, width: int, write: bool) -> Self:
        """Open arrays of `width` columns, creating them when `write`.

        LayoutMismatch for another width or format, FileNotFoundError where there are none.
        """
        return cls(folder, width, write)

    def close(self) -> None:
        """Close the files; arrays already read stay valid."""
        self._places.close()
        self._words.close()

    def __len__(self) -> int:
        """Number of whole records in the file, committed or not."""
        return len(self._places)

    @property
    def mean_bytes(self) -> int:
        """Mean bytes of an array on disk; 0 where there is none."""
        return os.fstat(self._words.handle).st_size // len(self) if len(self) else 0

    def append(self, at: int, arrays: Sequence[npt.NDArray[np.floating[Any]]]) -> None:
        """Write [n, width] arrays as rows at .. at+len(arrays), over existing ones; durable on return."""
        if at > len(self):
            raise Corrupt(f"{self.folder} has {len(self)} records where {at} were written before")
        for array in arrays:
            if array.ndim != 2 or array.shape[1] != self._width:
                raise ValueError(f"{self.folder} takes arrays [n, {self._width}], not {list(array.shape)}")
        start = self._end_of(at - 1) if at else 0
        sizes = np.array([aligned(2 * array.size) for array in arrays], np.int64)
        offsets = start + np.cumsum(sizes) - sizes
        packed = np.zeros(int(sizes.sum()), np.uint8)
        crcs = []
        for array, offset in zip(arrays, offsets - start, strict=True):
            raw = np.ascontiguousarray(array, np.float16).reshape(-1).view(np.uint8)
            packed[offset : offset + raw.size] = raw
            crcs.append(zlib.crc32(raw.data))
        write_at(self._words.handle, packed.data, start)
        os.fsync(self._words.handle)
        reach(FaultPoint.WORDS_PLACES)
        # The places come last: a place never points at words that are not on disk.
        self._places.append(
            at,
            {
                "offset": offsets,
                "length": np.array([len(array) for array in arrays], np.int64),
                "words_crc32": np.array(crcs, np.uint32),
                "words": np.empty((len(arrays), 0, self._width), np.float16),
            },
        )

    def _end_of(self, row: int) -> int:
        try:
            self._places.check(row)  # a wrong offset would overwrite other words
        except DamagedRow as damage:  # whose row number is a caption's, not a picture's
            raise Corrupt(str(damage)) from damage
        place = self._places.read([row], fields=["offset", "length"])
        return int(place["offset"][0]) + aligned(2 * self._width * int(place["length"][0]))

    def read(self, rows: RowNumbers) -> list[Half]:
        """Copies of the rows, one [n, width] array each, in the order asked; IndexError past the end."""
        places = self._places.read(rows, fields=["offset", "length"])
        return [
            self._raw(int(offset), int(length)).copy().view(np.float16).reshape(-1, self._width)
            for offset, length in zip(places["offset"], places["length"], strict=True)
        ]

    def _raw(self, offset: int, length: int) -> npt.NDArray[np.uint8]:
        stop = offset + 2 * self._width * length
        raw = self._words.upto(stop)[offset:stop]
        if raw.size != stop - offset:
            raise Corrupt(f"{self.folder}: words {offset} .. {stop} lie past the end of the file")
        return raw

    def blank(self, rows: Iterable[int]) -> int:
        """Overwrite rows with zeros of the same length, freeing their disk blocks.

        Returns how many rows were not blank already. Raises Corrupt where a row's offset or length is damaged, since it
        could point at the words of other rows.
        """
        changed = [row for row in rows if self._zero_words(row)]
        os.fsync(self._words.handle)
        reach(FaultPoint.WORDS_PLACES)
        places = self._places.read(changed, fields=["offset", "length"])
        crcs = [zlib.crc32(bytes(2 * self._width * int(length))) for length in places["length"]]
        words = np.empty((len(changed), 0, self._width), np.float16)
        self._places.overwrite(changed, {**places, "words_crc32": np.array(crcs, np.uint32), "words": words})
        return len(changed)

    def _zero_words(self, row: int) -> bool:
        """Overwrite the row's words with zeros; False where they were zero already and their checksum matches."""
        self._end_of(row)
        place = self._places.read([row], fields=["offset", "length", "words_crc32"])
        offset, length = int(place["offset"][0]), int(place["length"][0])
        raw = self._raw(offset, length)
        if raw.any():
            zero(self._words.handle, offset, 2 * self._width * length)
            return True
        return bool(zlib.crc32(raw.data) != place["words_crc32"][0])  # true after a killed blanking

    def check(self, row: int) -> None:
        """Raise Corrupt, naming the row, when its bytes do not match their checksum."""
        self._places.check(row)
        place = self._places.read([row], fields=["offset", "length", "words_crc32"])
        raw = self._raw(int(place["offset"][0]), int(place["length"][0]))
        if zlib.crc32(raw.data) != place["words_crc32"][0]:
            raise DamagedRow(f"{self.folder}: the words of row {row} do not match their checksum", row)

    def valid_prefix(self, count: int) -> int:
        """The largest row count, at most `count`, whose last rows match their checksums."""
        return valid_prefix(self.check, min(count, len(self)))
