"""Slabs: append-only, memory-mapped records of fixed size, 64-byte aligned, each with its CRC32."""

import json
import logging
import mmap
import os
import weakref
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from index.fault_points import FaultPoint, reach
from index.files import make_folder, remove_strays, replace_file, sync_folder, write_at, zero

Layout: TypeAlias = Mapping[str, tuple[tuple[int, ...], str]]
"""field -> (shape of one record's array, numpy dtype), such as {"features": ((36, 1280), "f2")}."""
Arrays: TypeAlias = dict[str, npt.NDArray[Any]]
RowNumbers: TypeAlias = Sequence[int] | npt.NDArray[np.integer[Any]]

SLAB_FORMAT = 1
HEADER, RECORDS = "header.json", "records.bin"
ALIGNMENT = 64
CHECKSUM = "crc32"
TAIL = 256  # rows checked before a count is trusted: far more than an unfinished batch


log = logging.getLogger(__name__)


class Corrupt(Exception):
    """Stored bytes differ from those written; the message names the place."""


class DamagedRow(Corrupt):
    """A row that does not match its checksum, or is missing."""

    def __init__(self, message: str, row: int) -> None:
        super().__init__(message)
        self.row = row


class LayoutMismatch(ValueError):
    """The folder holds records of another layout or format."""


def aligned(size: int) -> int:
    """The size rounded up to a multiple of 64."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def record_dtype(layout: Layout) -> np.dtype[Any]:
    """The layout as an aligned numpy record, its checksum last."""
    if CHECKSUM in layout or not layout:
        raise ValueError(f"a layout needs at least one field, and none named {CHECKSUM!r}")
    fields: dict[str, np.dtype[Any]] = {name: np.dtype((dtype, shape)) for name, (shape, dtype) in layout.items()}
    fields[CHECKSUM] = np.dtype("<u4")
    offsets, end = [], 0
    for dtype in fields.values():
        offsets.append(end)
        end += aligned(dtype.itemsize)
    return np.dtype({"names": list(fields), "formats": list(fields.values()), "offsets": offsets, "itemsize": end})


def stored_layout(folder: Path) -> Layout:
    """The layout in the header of the folder's slab. FileNotFoundError for none, LayoutMismatch for another format,
    Corrupt for a damaged header."""
    path = folder / HEADER
    content = path.read_bytes()
    try:
        header = json.loads(content)
        version = int(header["format"])
        layout = {
            str(name): (tuple(map(int, shape)), np.dtype(dtype).str)
            for name, (shape, dtype) in header["layout"].items()
        }
    except (ValueError, LookupError, AttributeError, TypeError) as fault:
        raise Corrupt(f"{path} is damaged: {fault}") from fault
    if version != SLAB_FORMAT:
        raise LayoutMismatch(f"{folder} holds records of the format {version}, not {SLAB_FORMAT}")
    return layout


def _has_header(folder: Path) -> bool:
    """Whether there is a readable header. A damaged one is logged."""
    try:
        stored_layout(folder)
    except FileNotFoundError:
        return False
    except LayoutMismatch:
        return True
    except Corrupt as fault:
        log.error("%s; it is made anew", fault)
        return False
    return True


class Mapped:
    """A memory-mapped, growing file."""

    def __init__(self, path: Path, write: bool) -> None:
        """Open the file, creating it when `write`."""
        self.handle = os.open(path, os.O_RDWR | os.O_CREAT if write else os.O_RDONLY, 0o644)
        # Also runs once the last reader drops it: no thread can know whether another is still reading.
        self.close = weakref.finalize(self, os.close, self.handle)
        self._bytes = np.empty(0, np.uint8)

    def __len__(self) -> int:
        """Current size of the file in bytes."""
        return os.fstat(self.handle).st_size

    def upto(self, size: int) -> npt.NDArray[np.uint8]:
        """At least the first `size` bytes, unless the file is shorter."""
        mapped = self._bytes
        if size > mapped.size and (length := len(self)) > mapped.size:
            # The old mapping lives as long as the arrays that view it.
            mapped = np.frombuffer(mmap.mmap(self.handle, length, access=mmap.ACCESS_READ), np.uint8)
            self._bytes = mapped
        return mapped


class Slab:
    """Records in a file. The number of valid ones is known to the catalog, or to a view's manifest, not to the slab."""

    def __init__(self, folder: Path, layout: Layout, write: bool) -> None:
        """Internal: use Slab.open instead."""
        self.folder = folder
        self.dtype = record_dtype(layout)
        self._names = list(layout)
        self._file = Mapped(folder / RECORDS, write)

    @classmethod
    def open(cls, folder: Path, layout: Layout, write: bool) -> Self:
        """Open the slab; with `write`, create it if needed, and replace a damaged header.

        LayoutMismatch for another layout, FileNotFoundError for none, Corrupt for a damaged header.
        """
        expected = {name: (tuple(shape), np.dtype(dtype).str) for name, (shape, dtype) in layout.items()}
        if write:
            make_folder(folder)
            remove_strays(folder)
            if not _has_header(folder):
                replace_file(
                    folder / HEADER, json.dumps({"format": SLAB_FORMAT, "layout": expected}, indent=1).encode()
                )
        existing = stored_layout(folder)
        if list(existing.items()) != list(expected.items()):
            raise LayoutMismatch(f"{folder} holds records of {existing}, not of {expected}")
        slab = cls(folder, layout, write)
        if write:
            sync_folder(folder)
        return slab

    def close(self) -> None:
        """Close the file; arrays already read stay valid."""
        self._file.close()

    def __len__(self) -> int:
        """Number of whole records in the file, committed or not."""
        return len(self._file) // self.dtype.itemsize

    def append(self, at: int, records: Mapping[str, npt.NDArray[Any]]) -> None:
        """Write [n, ...] arrays as rows at .. at+n, over existing ones; durable on return.

        Corrupt when there are fewer than `at` rows, ValueError for wrong fields or shapes.
        """
        if at > len(self):
            raise Corrupt(f"{self.folder} has {len(self)} records where {at} were written before")
        packed = self._packed(records)
        # Never truncated: a reader may have the file mapped.
        write_at(self._file.handle, packed.view(np.uint8).data, at * self.dtype.itemsize)
        reach(FaultPoint.RECORDS_WRITTEN)
        os.fsync(self._file.handle)

    def overwrite(self, rows: Sequence[int], records: Mapping[str, npt.NDArray[Any]]) -> None:
        """Write [n, ...] records over n existing rows; durable on return. IndexError past the end."""
        if rows and not 0 <= min(rows) <= max(rows) < len(self):
            raise IndexError(f"{self.folder} has rows 0 .. {len(self) - 1}, not {min(rows)} .. {max(rows)}")
        size = self.dtype.itemsize
        for row, record in zip(rows, self._packed(records).view(np.uint8).reshape(-1, size), strict=True):
            write_at(self._file.handle, record.data, row * size)
        reach(FaultPoint.RECORDS_WRITTEN)
        os.fsync(self._file.handle)

    def _packed(self, records: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[Any]:
        if set(records) != set(self._names):
            raise ValueError(f"{self.folder} takes the fields {self._names}, not {sorted(records)}")
        counts = {len(array) for array in records.values()}
        if len(counts) != 1:
            raise ValueError(f"fields of different lengths: { {n: len(a) for n, a in records.items()} }")
        packed = np.zeros(counts.pop(), self.dtype)
        for name, array in records.items():
            if array.shape != packed[name].shape:
                raise ValueError(f"{name}: a record is {packed[name].shape[1:]}, given {array.shape[1:]}")
            packed[name] = array
        raw = packed.view(np.uint8).reshape(len(packed), self.dtype.itemsize)
        packed[CHECKSUM] = [self._checksum(record) for record in raw]
        return packed

    def _checksum(self, record: npt.NDArray[np.uint8]) -> int:
        return zlib.crc32(record[:-ALIGNMENT].data)  # the checksum has the last 64 bytes to itself

    def _rows(self, stop: int) -> npt.NDArray[Any]:
        """The mapped records, at least up to row `stop`; fewer where the file is shorter."""
        size = self.dtype.itemsize
        mapped = self._file.upto(stop * size)
        return mapped[: mapped.size // size * size].view(self.dtype)

    def read(
        self,
        rows: RowNumbers,
        out: Mapping[str, npt.NDArray[Any]] | None = None,
        fields: Sequence[str] | None = None,
    ) -> Arrays:
        """Copies of the rows, [len(rows), ...] for each field, in the order asked; IndexError past the end.

        `out`: buffers of at least len(rows) to fill (its keys choose the fields, its dtypes convert); the result
        consists of views of them. `fields`: those to read when there is no `out`.
        """
        numbers = [int(row) for row in rows]
        stored = self._rows(max(numbers, default=-1) + 1)
        if numbers and not 0 <= min(numbers) <= max(numbers) < len(stored):
            asked_rows = f"{min(numbers)} .. {max(numbers)}"
            raise IndexError(f"{self.folder} has rows 0 .. {len(self) - 1}, asked for {asked_rows}")
        if out is None:
            out = {
                name: np.empty((len(numbers), *stored[name].shape[1:]), stored[name].dtype)
                for name in fields or self._names
            }
        result = {name: buffer[: len(numbers)] for name, buffer in out.items()}
        # Row by row: numpy's own take() would first copy the whole strided field, and indexing makes a second copy.
        for name, buffer in result.items():
            source = stored[name]
            for place, row in enumerate(numbers):
                buffer[place] = source[row]
        return result

    def in_place(self, count: int) -> Arrays:
        """The fields of at least the first `count` records, [n, ...], mapped: read-only and never copied.

        IndexError where there are fewer.
        """
        stored = self._rows(count)
        if len(stored) < count:
            raise IndexError(f"{self.folder} has {len(stored)} rows, asked for {count}")
        return {name: stored[name] for name in self._names}

    def _row(self, row: int) -> npt.NDArray[Any]:
        stored = self._rows(row + 1)
        if not 0 <= row < len(stored):
            raise DamagedRow(f"{self.folder}: row {row} is missing, there are {len(stored)}", row)
        return stored[row : row + 1]

    def check(self, row: int) -> None:
        """Raise Corrupt, naming the row, when its bytes do not match their checksum."""
        record = self._row(row)
        if self._checksum(record.view(np.uint8)) != record[CHECKSUM][0]:
            raise DamagedRow(f"{self.folder}: row {row} does not match its checksum", row)

    def blank(self, rows: Iterable[int]) -> int:
        """Overwrite rows with zeros and a valid checksum, freeing their disk blocks.

        Returns how many rows were not blank already.
        """
        fields = np.zeros(1, self.dtype)
        empty = self._packed({name: fields[name] for name in self._names})
        raw, size, changed = empty.view(np.uint8), self.dtype.itemsize, 0
        for row in rows:
            if (self._row(row).view(np.uint8) == raw).all():
                continue
            zero(self._file.handle, row * size, size)
            write_at(self._file.handle, raw[-ALIGNMENT:].data, (row + 1) * size - ALIGNMENT)
            changed += 1
        os.fsync(self._file.handle)
        return changed

    def valid_prefix(self, count: int) -> int:
        """The largest row count, at most `count`, whose last rows match their checksums."""
        return valid_prefix(self.check, min(count, len(self)))


def valid_prefix(check: Callable[[int], None], count: int) -> int:
    """The largest number of rows <= count whose last TAIL all pass `check`, which raises Corrupt otherwise."""
    valid = count
    while valid:
        damaged = first_damaged(check, max(0, valid - TAIL), valid)
        if damaged == valid:
            break
        valid = damaged  # the rows before it are the new tail, to be checked next
    return valid


def first_damaged(check: Callable[[int], None], start: int, stop: int) -> int:
    """The first of the rows start .. stop that fails its check; `stop` if none does."""
    for row in range(start, stop):
        try:
            check(row)
        except Corrupt:
            return row
    return stop


def damaged_rows(check: Callable[[int], None], start: int, stop: int) -> list[int]:
    """The rows of start .. stop that fail their check."""
    damaged, row = [], first_damaged(check, start, stop)
    while row < stop:
        damaged.append(row)
        row = first_damaged(check, row + 1, stop)
    return damaged
