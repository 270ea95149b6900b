"""Arrays in .npy files, mapped into memory."""

import errno
import io
import math
import os
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.lib.format import dtype_to_descr, open_memmap, write_array_header_1_0


def open_array(path: Path, mode: Literal["r", "r+"] = "r") -> np.memmap:
    """The memory-mapped array in a file. Raises ValueError, which names the file, if that holds no whole array."""
    try:
        array = np.load(path, mmap_mode=mode, allow_pickle=False)
    except (EOFError, ValueError) as fault:  # an empty file, one that was cut, pickled objects, something else
        raise ValueError(f"{path} holds no whole array of numbers, as a .npy file does") from fault
    assert isinstance(array, np.memmap)
    return array


def open_regions(path: Path) -> np.memmap:
    """The features of regions in a file, [pictures, regions, numbers]. Raises ValueError for anything else."""
    array = open_array(path)
    if array.ndim != 3 or 0 in array.shape:
        raise ValueError(f"{path} has shape {array.shape}, not (pictures, regions, numbers), of each one at least")
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{path} holds values of type {array.dtype}, not real numbers")
    return array


def create_array(path: Path, shape: tuple[int, ...], dtype: str) -> None:
    """Create a file with an array of zeros. Raises OSError if the disk has no room for it, and then leaves no file.

    The space is allocated at once: a write to a mapped file on a full disk would kill the process.
    """
    try:
        open_memmap(path, mode="w+", dtype=dtype, shape=shape)
        with path.open("rb+") as file:
            _allocate(file.fileno(), path.stat().st_size)
    except OSError as fault:
        path.unlink(missing_ok=True)
        raise OSError(fault.errno, fault.strerror, str(path)) from fault


def grow_array(path: Path, rows: int) -> None:
    """Grow the array in a file to `rows` rows; the new ones are zeros.

    A kill leaves the old array or the larger one. Raises OSError if the disk has no room, and then leaves the old one.
    """
    array = open_array(path)
    if len(array) >= rows:
        return
    head, start, shape = io.BytesIO(), array.offset, (rows, *array.shape[1:])
    write_array_header_1_0(head, {"descr": dtype_to_descr(array.dtype), "fortran_order": False, "shape": shape})
    if len(head.getvalue()) != start or not array.flags.c_contiguous:
        raise ValueError(f"{path} was laid out by another program, and cannot take in more rows")
    size = start + math.prod(shape) * array.itemsize
    with path.open("rb+") as file:
        try:
            _allocate(file.fileno(), size)
            file.truncate(size)  # on file systems without preallocation
        except OSError as fault:
            file.truncate(start + array.nbytes)
            raise OSError(fault.errno, fault.strerror, str(path)) from fault
        os.fsync(file.fileno())
        file.write(head.getvalue())  # commits the new number of rows
        file.flush()
        os.fsync(file.fileno())


def _allocate(file: int, size: int) -> None:
    try:
        os.posix_fallocate(file, 0, size)
    except OSError as fault:
        if fault.errno not in (errno.EINVAL, errno.EOPNOTSUPP):  # of a file system without preallocation
            raise
