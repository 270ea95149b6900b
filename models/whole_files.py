"""Files that are written whole: whoever reads one finds what was there before, or all that is there now."""

import fcntl
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import IO

from safetensors.torch import save
from torch import Tensor

LONGEST_STEM = 200  # bytes of a temporary file's name that are of the file's own, which may have all of 255
EIGHT_DIGITS = "[0-9a-f]" * 8


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file, durably. OSError names it, and leaves what was there before and nothing beside it.

    Of several writers at once each writes a file of its own, and the last one's stays. What writers that were killed
    left beside it is removed.
    """
    try:
        with _partial_beside(path) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            Path(file.name).replace(path)
        _remove_strays(path)
        _sync_folder(path.parent)
    except OSError as fault:
        raise OSError(fault.errno, fault.strerror, str(path)) from fault


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Replace a safetensors file. Others may read it as any file (safetensors' own `save_file` keeps them from it)."""
    write_whole(path, save({name: tensor.contiguous().cpu() for name, tensor in tensors.items()}))


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """A block that no other one of the same folder runs beside, in this process or another; they wait.

    Where the file system locks no folders, nobody waits.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextmanager
def _partial_beside(path: Path) -> Iterator[IO[bytes]]:
    """A new file beside `path`, to be renamed in the block, under a name of this writer's own; removed where it fails.

    It is locked, so that `_remove_strays` of no process takes it for a stray.
    """
    while True:
        partial = path.with_name(f"{_stem(path)}.{secrets.token_hex(4)}.partial")
        file = partial.open("xb")
        with suppress(OSError):  # a file system without locks, where no strays are removed either
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:  # otherwise it was removed as a stray before it was locked
            break
        file.close()
    try:
        with file:
            yield file
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _remove_strays(path: Path) -> None:
    """Remove what killed writers of `path` left beside it; the files of living ones stay."""
    for stray in path.parent.glob(f"{escape(_stem(path))}.{EIGHT_DIGITS}.partial"):
        with suppress(OSError), stray.open("rb") as file:  # it is being written, or gone by now
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            stray.unlink()


def _stem(path: Path) -> str:
    return os.fsencode(path.name)[:LONGEST_STEM].decode(errors="ignore")


def _sync_folder(folder: Path) -> None:
    """Return when the names in the folder are on disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
