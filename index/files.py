"""Crash-safe files: fsync of contents and names, and atomic replacement."""

import ctypes
import errno
import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO

from index.fault_points import FaultPoint, reach

TEMPORARY = ".tmp"
DEFAULT_MODE = 0o666  # less what the umask takes away
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)  # error numbers of a full disk
LONGEST_BEGINNING = 200  # bytes of a file's name that begin the name of its temporary file
KEEP_SIZE, PUNCH_HOLE = 1, 2  # flags of Linux' fallocate


def sync_folder(folder: Path) -> None:
    """Make the names in the folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_file(path: Path) -> None:
    """Make the file's bytes durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(folder: Path, private: bool = False) -> None:
    """Create the folder and its missing parents, durably; do nothing when it exists.

    A private folder is closed to users of the machine other than its owner and group.
    """
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(0o770 if private else 0o777, exist_ok=True)  # less what the umask takes away
    sync_folder(folder.parent)


def replace_file(path: Path, content: bytes) -> None:
    """Replace the file's content, atomically and durably: readers, and a crash, see the old content or the new.

    An OSError names the file, even where the system's does not, as for a full disk.
    """
    try:
        with replacement_of(path) as file:
            file.write(content)
    except OSError as fault:
        if fault.errno is None or fault.filename is not None:
            raise
        raise OSError(fault.errno, fault.strerror, str(path)) from fault
    sync_folder(path.parent)


@contextmanager
def replacement_of(
    path: Path,
    mode: int = DEFAULT_MODE,
    written: FaultPoint = FaultPoint.REPLACEMENT_WRITTEN,
    renamed: FaultPoint = FaultPoint.REPLACEMENT_RENAMED,
) -> Iterator[IO[bytes]]:
    """A new file that takes the place of `path` at the end of the block, which writes it; removed if the block fails.

    Its bytes are durable before it is renamed; its new name is only after a `sync_folder`.
    """
    with temporary_beside(path, mode) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
        reach(written)
        Path(file.name).replace(path)
        reach(renamed)


@contextmanager
def temporary_beside(path: Path, mode: int = DEFAULT_MODE) -> Iterator[IO[bytes]]:
    """A new file in the folder of `path`, to be renamed inside the block, under a name that no other writer uses.

    It is locked, so that no process's `remove_strays` removes it; on a file system without locks no strays are removed.
    (`models.whole_files` does the same: neither package imports the other, or a third one.)
    """
    while True:
        temporary = path.with_name(f"{_shortened(path.name)}.{secrets.token_hex(4)}{TEMPORARY}")
        file = open(temporary, "xb", opener=partial(os.open, mode=mode))  # noqa: SIM115 - closed below
        with suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:  # otherwise it was removed as a stray before it was locked
            break
        file.close()
    try:
        yield file
    except BaseException:  # do not leave half a file on what may be a full disk
        temporary.unlink(missing_ok=True)
        raise
    finally:
        file.close()


def half_written(path: Path) -> Iterator[Path]:
    """Files left by `temporary_beside` for a path when processes were killed while writing."""
    return path.parent.glob(f"{_shortened(path.name)}.*{TEMPORARY}")


def _shortened(name: str) -> str:
    """The beginning of a name, short enough that letters may be added where names have at most 255 bytes."""
    return os.fsencode(name)[:LONGEST_BEGINNING].decode(errors="ignore")


def remove_strays(folder: Path) -> None:
    """Remove unfinished files of killed writers; those of running writers stay."""
    for stray in folder.glob(f"*{TEMPORARY}"):
        with suppress(OSError), stray.open("rb") as file:  # in use, already gone, or on a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            stray.unlink(missing_ok=True)


def punch_hole(handle: int, offset: int, length: int) -> bool:
    """Turn the bytes into zeros that take no room on the disk; False where the file system cannot."""
    fallocate = getattr(ctypes.CDLL(None), "fallocate", None)
    if fallocate is None:
        return False
    flags = ctypes.c_int(KEEP_SIZE | PUNCH_HOLE)
    return bool(fallocate(ctypes.c_int(handle), flags, ctypes.c_int64(offset), ctypes.c_int64(length)) == 0)


def zero(handle: int, offset: int, length: int) -> None:
    """Overwrite the bytes with zeros, freeing their disk blocks where the file system can."""
    if length and not punch_hole(handle, offset, length):
        write_at(handle, memoryview(bytes(length)), offset)


def write_at(handle: int, content: memoryview, offset: int) -> None:
    """Write all of the bytes at the offset; OSError when the disk is full."""
    while content:
        written = os.pwrite(handle, content, offset)
        content, offset = content[written:], offset + written
