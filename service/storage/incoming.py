"""Folders of uploads in progress, below DATA/incoming: one a request, removed with it or after a crash."""

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def upload_folder(incoming: Path) -> Iterator[Path]:
    """A new folder below `incoming`, removed when the block ends.

    It is locked, so that `remove_abandoned_uploads` of no process takes it for abandoned.
    """
    while True:
        folder = incoming / secrets.token_hex(8)
        folder.mkdir()
        try:
            handle = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:  # removed as abandoned at once
            continue
        fcntl.flock(handle, fcntl.LOCK_EX)
        if folder.exists():  # otherwise it was removed as abandoned before it was locked
            break
        os.close(handle)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def remove_abandoned_uploads(incoming: Path) -> int:
    """Remove the folders that ended processes left below `incoming`; returns how many."""
    removed = 0
    for folder in incoming.iterdir():
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except (FileNotFoundError, NotADirectoryError):  # its request has just ended; or no upload made it
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
            removed += 1
        except BlockingIOError:  # a living process is receiving a request into it
            pass
        finally:
            os.close(handle)
    return removed
