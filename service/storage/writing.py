"""The right to write a data directory, which one process has at a time."""

import errno
from pathlib import Path

from index.lock import WriterLock
from service.errors import Misconfigured


def lock_data_dir(folder: Path) -> WriterLock:
    """The writer's lock; Locked where another process has it, Misconfigured where the folder may not be written."""
    try:
        return WriterLock(folder)
    except OSError as fault:
        if fault.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        raise Misconfigured(
            f"{folder} cannot be written ({fault.strerror}): give this user the folder, or mount it writable;"
            " `regard serve --role api` searches it as it is"
        ) from fault
