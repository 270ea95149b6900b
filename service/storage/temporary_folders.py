"""Temporary folders, which are soon removed also where the process that made them was killed."""

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

BEING_MADE_S = 60.0


@contextlib.contextmanager
def temporary_folder(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """A new folder whose name begins so, in `parent` or else where temporary files lie, until the block ends.

    Folders of such names that killed processes left there are removed: let nobody's own be called so.
    """
    place = Path(tempfile.gettempdir()) if parent is None else parent
    for left in place.glob(f"{prefix}*"):
        # A process was killed, unless one is making the folder just now, or removes it.
        with contextlib.suppress(FileNotFoundError), locked_folder(left) as is_nobodys:
            if is_nobodys and time.time() - left.stat().st_mtime > BEING_MADE_S:
                shutil.rmtree(left, ignore_errors=True)
    with (
        tempfile.TemporaryDirectory(prefix=prefix, dir=place, ignore_cleanup_errors=True) as folder,
        locked_folder(Path(folder)),  # also those who tidy up temporary files leave alone what is locked
    ):
        yield Path(folder)


@contextlib.contextmanager
def locked_folder(folder: Path) -> Iterator[bool]:
    """Whether nobody else has locked the folder, which then is locked until the block ends."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:  # gone, or another user's
        yield False
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
    else:
        yield True
    finally:
        os.close(handle)
