"""Arrays in .npy files, mapped into memory."""

import errno
import os
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.lib.format import open_memmap


def open_array(path: Path, mode: Literal["r", "r+"] = "r") -> np.memmap:
    """The array in a file, which is read where it is looked at. ValueError names a file that holds no whole array."""
    try:
        array = np.load(path, mmap_mode=mode, allow_pickle=False)
    except (EOFError, ValueError) as fault:  # an empty file, one that was cut, pickled objects, something else
        raise ValueError(f"{path} holds no whole array of numbers, as a .npy file does") from fault
    assert isinstance(array, np.memmap)
    return array


def create_array(path: Path, shape: tuple[int, ...], dtype: str) -> None:
    """Make a file for an array of zeros. OSError where the disk has no room for it, and then leaves none.

    The room is taken at once: a mapped file that finds none later would end the program without a word.
    """
    try:
        open_memmap(path, mode="w+", dtype=dtype, shape=shape)
        with path.open("rb+") as file:
            _take_room(file.fileno(), path.stat().st_size)
    except OSError as fault:
        path.unlink(missing_ok=True)
        raise OSError(fault.errno, fault.strerror, str(path)) from fault


def _take_room(file: int, size: int) -> None:
    try:
        os.posix_fallocate(file, 0, size)
    except OSError as fault:
        if fault.errno not in (errno.EINVAL, errno.EOPNOTSUPP):  # of a file system that takes no room ahead
            raise
