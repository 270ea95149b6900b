"""The disk of a data directory: its free space, a reserve of it, and its failures."""

import errno
import logging
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from index.files import NO_ROOM
from service.errors import DiskFull, NotReady, Problem
from service.units import MB

FULL_RETRY_S = 60
BUSY_RETRY_S = 30
FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
STILL_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_BUSY_SNAPSHOT)
WORKER_SHARE = 4  # the worker processes accepted pictures until a quarter of the reserve is left

log = logging.getLogger(__name__)


class FreeSpace:
    """The free space of a disk, against a reserve: on a completely full disk nothing can be cleaned up any more."""

    def __init__(self, folder: Path, reserve: int) -> None:
        """`folder` lies on the disk; `reserve` is in bytes, 0 for none."""
        self._folder, self._reserve = folder, reserve

    @property
    def free(self) -> int:
        """Bytes that this user may still write."""
        return shutil.disk_usage(self._folder).free

    def shortage(self) -> str | None:
        """A message where there is no room for more pictures; None where there is."""
        free = self.free
        if free >= self._reserve:
            return None
        return (
            f"the disk of the data directory has {free // MB} MB free, and {self._reserve // MB} MB are"
            " kept free (REGARD_DISK_RESERVE_BYTES): make room"
        )

    def require(self, num_bytes: int | None) -> None:
        """Raise DiskFull where `num_bytes` more (None if unknown) would use up part of the reserve."""
        if self.free - (num_bytes or 0) < self._reserve:
            raise _disk_full()

    def enough_to_work(self) -> bool:
        """Whether there is room to process accepted pictures."""
        return self.free >= self._kept_by_worker

    def need_of_worker(self) -> str:
        """The disk, and how much of it must be free for accepted pictures to be processed."""
        return (
            f"{self._folder.resolve()} has {self.free // MB} MB free, and {self._kept_by_worker // MB} MB, a quarter of"
            " REGARD_DISK_RESERVE_BYTES, are kept free"
        )

    @property
    def _kept_by_worker(self) -> int:
        return self._reserve // WORKER_SHARE


def is_disk_full(fault: BaseException) -> bool:
    """Whether an exception means that the disk is full."""
    if isinstance(fault, sqlite3.OperationalError):
        return getattr(fault, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
    return isinstance(fault, OSError) and fault.errno in NO_ROOM


def is_catalog_kept(fault: BaseException) -> bool:
    """Whether an exception means that others kept the catalog locked beyond the timeout."""
    return getattr(fault, "sqlite_errorcode", None) in STILL_BUSY


def disk_problem(fault: Exception) -> Problem | None:
    """The HTTP problem for a disk failure, which is also logged: DiskFull where there is no room.

    None for an exception that concerns neither a disk nor a locked catalog.
    """
    if is_disk_full(fault):
        return _disk_full()
    if is_catalog_kept(fault):
        log.error("this or another process changes the catalog for longer than a request waits for it: %s", fault)
        return NotReady(
            "The catalog is being changed, by this service or by another process; try again.", retry_after=BUSY_RETRY_S
        )
    # The lowest byte of a code is the kind of error: here an I/O error of the system, such as an exhausted quota.
    is_sqlite = (getattr(fault, "sqlite_errorcode", None) or 0) & 0xFF == sqlite3.SQLITE_IOERR
    if not (isinstance(fault, OSError) or is_sqlite):
        return None
    log.error("the disk of the data directory failed: %s", fault)
    cause = fault.strerror if isinstance(fault, OSError) else fault
    if isinstance(fault, OSError) and fault.errno in FORBIDDEN:  # permanent, so without retry_after
        return NotReady(
            f"The server may not write to its disk ({cause}), and nothing of this request was kept: whoever runs it"
            " gives its user the data directory; the log of the server says which part of it."
        )
    return NotReady(
        f"The server cannot write to its disk ({cause}), and nothing of this request was kept; the log of the server"
        " says where.",
        retry_after=FULL_RETRY_S,
    )


@contextmanager
def refused_by_disk() -> Iterator[None]:
    """Replace an exception of the block by its `disk_problem` if it has one; others are raised unchanged."""
    try:
        yield
    except (OSError, sqlite3.OperationalError) as fault:
        if (problem := disk_problem(fault)) is None:
            raise
        raise problem from fault


def _disk_full() -> DiskFull:
    return DiskFull(
        "There is no room on the disk of the server, and nothing of this request was kept. Free some there, and send it"
        " again.",
        retry_after=FULL_RETRY_S,
    )
