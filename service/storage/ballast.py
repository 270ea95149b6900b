"""A placeholder file that is removed when the disk is full, so that a service still starts, searches and deletes there.

SQLite cannot open a catalog without writing a little beside it, and no key can be revoked without writing the key file;
so a process on a full disk first needs some room.
"""

import contextlib
import logging
import os
import shutil
from pathlib import Path

from service.errors import Misconfigured

BALLAST = "ballast"
BALLAST_BYTES = 2**20
NEEDED_BYTES = 2**18

log = logging.getLogger(__name__)


def lay_ballast(data_dir: Path) -> None:
    """Create the file where it is missing, the directory is writable, and the disk has room for twice its size."""
    file = data_dir / BALLAST
    if file.exists() and not file.stat().st_size:  # left by a process that was killed before it allocated the space
        file.unlink()
    if file.exists() or not os.access(data_dir, os.W_OK) or shutil.disk_usage(data_dir).free < 2 * BALLAST_BYTES:
        return
    try:
        with file.open("xb") as new_file:
            os.posix_fallocate(new_file.fileno(), 0, BALLAST_BYTES)
    except FileExistsError:  # another process was faster
        return
    except OSError:  # the disk has filled meanwhile
        with contextlib.suppress(OSError):
            file.unlink()


def give_up_ballast(data_dir: Path) -> None:
    """Remove the file where the disk is full. Misconfigured where the disk is full even then.

    Does nothing where the folder is missing or not writable.
    """
    if not os.access(data_dir, os.W_OK) or has_room(data_dir):
        return
    (data_dir / BALLAST).unlink(missing_ok=True)
    if not has_room(data_dir):
        raise Misconfigured(f"the disk of {data_dir} is full: make room there, a megabyte or more, and try again")
    log.warning("the disk of %s is full: %s was removed, so that what is stored can be opened", data_dir, BALLAST)


def release_ballast(data_dir: Path) -> bool:
    """Remove the file before a change that itself frees space; False where it is missing."""
    try:
        (data_dir / BALLAST).unlink()
    except OSError:
        return False
    log.warning("the disk of %s is full: %s was removed, so that pictures can be deleted", data_dir, BALLAST)
    return True


def has_room(folder: Path) -> bool:
    """Whether the folder's disk has the space that opening a data directory needs."""
    return shutil.disk_usage(folder).free >= NEEDED_BYTES
