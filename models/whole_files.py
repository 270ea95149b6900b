"""Files that are replaced atomically: a reader finds the old content or all of the new."""

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

LONGEST_STEM = 200  # bytes of the file's name in a temporary file's; a name may have 255
EIGHT_DIGITS = "[0-9a-f]" * 8


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file, durably. An OSError names the file, keeps the old content and leaves no temporary file.

    Concurrent writers write temporary files of their own, and the last content stays. Temporary files of killed
    writers are removed.
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
    """Replace a safetensors file, with the usual permissions (`save_file` of safetensors lets only the owner read)."""
    write_whole(path, save({name: tensor.contiguous().cpu() for name, tensor in tensors.items()}))


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """A lock on a folder, exclusive among processes and threads.

    It has no effect if the file system cannot lock folders.
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
    """A temporary file of this writer, beside `path`, to be renamed in the block; removed if the block fails.

    It is locked, so that no process's `_remove_strays` removes it.
    """
    while True:
        partial = path.with_name(f"{_stem(path)}.{secrets.token_hex(4)}.partial")
        file = partial.open("xb")
        with suppress(OSError):  # without locks, no strays are removed either
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
    """Remove temporary files of killed writers of `path`, but not of running ones."""
    for stray in path.parent.glob(f"{escape(_stem(path))}.{EIGHT_DIGITS}.partial"):
        with suppress(OSError), stray.open("rb") as file:  # locked by its writer, or removed since
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            stray.unlink()


def _stem(path: Path) -> str:
    return os.fsencode(path.name)[:LONGEST_STEM].decode(errors="ignore")


def _sync_folder(folder: Path) -> None:
    """Wait until the folder's names are on disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
