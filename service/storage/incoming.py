"""Folders of uploads in progress, below DATA/incoming: one for each request, removed when it ends."""

from contextlib import AbstractContextManager
from pathlib import Path

from service.storage.temporary_folders import scratch_folder

SHARED = 0o777  # less the umask: the worker may be another user of the group


def upload_folder(incoming: Path) -> AbstractContextManager[Path]:
    """A new folder below `incoming`, removed when the block ends."""
    return scratch_folder(incoming, mode=SHARED)
