"""Append-only, memory-mapped [n, D] fp16 arrays of varying n (captions)."""

import os
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from index.fault_points import FaultPoint, reach
from index.files import sync_folder, write_at, zero
from index.views.slab import Corrupt, DamagedRow, Mapped, RowNumbers, Slab, aligned, valid_prefix

Half: TypeAlias = npt.NDArray[np.float16]


class _Place(NamedTuple):
    """The bytes of an array in the file of words, and their checksum."""

    offset: int
    size: int
    crc32: int


class RaggedSlab:
    """Arrays of differing length: a slab of (offset, length) pairs beside one file of 64-byte aligned rows."""

    def __init__(self, folder: Path, width: int, write: bool) -> None:
        """Open arrays of `width` columns, creating them when `write`.

        LayoutMismatch for another width or format, FileNotFoundError where there are none.
        """
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
        start = 0
        if at:
            last = self._checked_place(at - 1)
            start = last.offset + aligned(last.size)
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

    def _place(self, row: int) -> _Place:
        place = self._places.read([row], fields=["offset", "length", "words_crc32"])
        offset, length, crc32 = (int(numbers[0]) for numbers in place.values())
        return _Place(offset, 2 * self._width * length, crc32)

    def _checked_place(self, row: int) -> _Place:
        """The row's place, to write at: a damaged one is Corrupt, since writing there would overwrite other words."""
        try:
            self._places.check(row)
        except DamagedRow as damage:  # whose row number is a caption's, not a picture's
            raise Corrupt(str(damage)) from damage
        return self._place(row)

    def read(self, rows: RowNumbers) -> list[Half]:
        """Copies of the rows, one [n, width] array each, in the order asked; IndexError past the end."""
        places = self._places.read(rows, fields=["offset", "length"])
        return [
            self._raw(int(offset), 2 * self._width * int(length)).copy().view(np.float16).reshape(-1, self._width)
            for offset, length in zip(places["offset"], places["length"], strict=True)
        ]

    def _raw(self, offset: int, size: int) -> npt.NDArray[np.uint8]:
        stop = offset + size
        raw = self._words.upto(stop)[offset:stop]
        if raw.size != size:
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
        place = self._checked_place(row)
        raw = self._raw(place.offset, place.size)
        if raw.any():
            zero(self._words.handle, place.offset, place.size)
            return True
        return zlib.crc32(raw.data) != place.crc32  # true after a killed blanking

    def check(self, row: int) -> None:
        """Raise Corrupt, naming the row, when its bytes do not match their checksum."""
        self._places.check(row)
        place = self._place(row)
        if zlib.crc32(self._raw(place.offset, place.size).data) != place.crc32:
            raise DamagedRow(f"{self.folder}: the words of row {row} do not match their checksum", row)

    def valid_prefix(self, count: int) -> int:
        """The largest row count, at most `count`, whose last rows match their checksums."""
        return valid_prefix(self.check, min(count, len(self)))
