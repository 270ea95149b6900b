"""Folders of uploads in progress, below DATA/incoming: one a request, removed with it or after a crash."""

from contextlib import AbstractContextManager
from pathlib import Path

from service.storage.temporary_folders import remove_abandoned, scratch_folder

SHARED = 0o777  # less what the umask takes away: the worker may be another user of the group


def upload_folder(incoming: Path) -> AbstractContextManager[Path]:
    """A new folder below `incoming`, removed when the block ends."""
    return scratch_folder(incoming, mode=SHARED)


def remove_abandoned_uploads(incoming: Path) -> int:
    """Remove the folders that ended processes left below `incoming`; returns how many."""
    return remove_abandoned(incoming)
