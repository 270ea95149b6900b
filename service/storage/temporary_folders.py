"""Temporary folders that are removed even where the process that created them was killed."""

import contextlib
import fcntl
import logging
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

log = logging.getLogger(__name__)


@contextlib.contextmanager
def temporary_folder(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """A `scratch_folder` in `parent`, or else in the folder of temporary files; abandoned ones there are removed
    first."""
    place = Path(tempfile.gettempdir()) if parent is None else parent
    remove_abandoned(place, prefix)
    with scratch_folder(place, prefix) as folder:
        yield folder


@contextlib.contextmanager
def scratch_folder(parent: Path, prefix: str = "", mode: int = 0o700) -> Iterator[Path]:
    """A new folder in `parent` whose name begins with `prefix`, removed when the block ends.

    It is locked, so that no process's `remove_abandoned` removes it; programs that tidy up temporary files respect the
    lock, too. So a file that needs to lock its folder, such as a catalog, belongs in a subfolder.
    """
    while True:
        folder = parent / f"{prefix}{secrets.token_hex(8)}"
        folder.mkdir(mode)
        try:
            handle = _opened(folder)
        except FileNotFoundError:  # removed as abandoned at once
            continue
        with contextlib.suppress(OSError):  # without locks, nothing is removed as abandoned either
            fcntl.flock(handle, fcntl.LOCK_EX)
        if folder.exists():  # otherwise it was removed as abandoned before it was locked
            break
        os.close(handle)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def remove_abandoned(parent: Path, prefix: str = "") -> int:
    """Remove the folders that ended processes left in `parent`; returns how many.

    These are all unlocked folders whose names begin with `prefix`, which must not match any other folder.
    """
    try:
        folders = [folder for folder in parent.iterdir() if folder.name.startswith(prefix)]
    except PermissionError:  # a drop folder, which may not be listed
        return 0
    removed = 0
    for folder in folders:
        with locked_folder(folder) as is_locked:
            if is_locked:
                removed += _is_removed(folder)
    return removed


@contextlib.contextmanager
def locked_folder(folder: Path) -> Iterator[bool]:
    """Whether the folder could be locked; the lock is held until the block ends."""
    try:
        handle = _opened(folder)
    except OSError:  # missing, another user's, or not a folder
        yield False
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # locked by another process, or on a file system without locks
        yield False
    else:
        yield True
    finally:
        os.close(handle)


def _opened(folder: Path) -> int:
    """A file descriptor of the folder itself, not of the target of a link."""
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)


def _is_removed(folder: Path) -> bool:
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:  # its process has just ended
        return False
    except OSError as fault:
        log.warning("%s, which an ended process left, could not be removed: %s", folder, fault)
        return False
    return True
