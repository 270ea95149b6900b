"""Temporary folders, which are soon removed also where the process that made them was killed."""

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
    """A `scratch_folder` in `parent`, or else where temporary files lie; abandoned ones there are removed first."""
    place = Path(tempfile.gettempdir()) if parent is None else parent
    remove_abandoned(place, prefix)
    with scratch_folder(place, prefix) as folder:
        yield folder


@contextlib.contextmanager
def scratch_folder(parent: Path, prefix: str = "", mode: int = 0o700) -> Iterator[Path]:
    """A new folder in `parent` whose name begins with `prefix`, removed when the block ends.

    It is locked, so that `remove_abandoned` of no process takes it for abandoned; also those who tidy up temporary
    files leave alone what is locked. So nothing that locks its own folder, as a catalog does, may lie right in it.
    """
    while True:
        folder = parent / f"{prefix}{secrets.token_hex(8)}"
        folder.mkdir(mode)
        try:
            handle = _opened(folder)
        except FileNotFoundError:  # removed as abandoned at once
            continue
        with contextlib.suppress(OSError):  # a file system without locks, where nothing is removed as abandoned either
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

    Those are all whose names begin with `prefix` and that nobody has locked: let nobody's own be called so.
    """
    try:
        found = [folder for folder in parent.iterdir() if folder.name.startswith(prefix)]
    except PermissionError:  # a place to drop things in, which nobody may list
        return 0
    removed = 0
    for folder in found:
        with locked_folder(folder) as is_nobodys:
            if is_nobodys:
                removed += _is_removed(folder)
    return removed


@contextlib.contextmanager
def locked_folder(folder: Path) -> Iterator[bool]:
    """Whether nobody else has locked the folder, which then is locked until the block ends."""
    try:
        handle = _opened(folder)
    except OSError:  # gone, another user's, or no folder
        yield False
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # somebody has, or nothing here can be locked
        yield False
    else:
        yield True
    finally:
        os.close(handle)


def _opened(folder: Path) -> int:
    """A handle on the folder itself, not on one that a link leads to."""
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
