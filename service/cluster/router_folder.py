"""The folder that a router has for itself: for uploads as they come, and its copy of the key file.

A router that is killed leaves it behind; the next one that starts on the same machine removes it.
"""

import logging
import secrets
import shutil
from pathlib import Path

from index.lock import Locked, WriterLock
from service.storage.data_dir_lock import wait_for_lock

ROUTERS = "routers"  # in a node's data directory

log = logging.getLogger(__name__)


class RouterFolder:
    """An empty folder, held until `close` or the end of the process, however it ends."""

    def __init__(self, data_dir: Path) -> None:
        """Make it below a node's data directory, and remove those whose routers are gone."""
        parent = data_dir / ROUTERS
        with wait_for_lock(parent):  # nobody takes a folder for abandoned that is just being made
            remove_abandoned_folders(parent)
            self.path = parent / secrets.token_hex(8)
            self._lock = WriterLock(self.path)

    def close(self) -> None:
        """Remove it."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def remove_abandoned_folders(parent: Path) -> None:
    """Remove the folders of routers that do not run any more."""
    for folder in [path for path in parent.iterdir() if path.is_dir()]:
        try:
            with WriterLock(folder):
                shutil.rmtree(folder)
        except Locked:  # its router runs
            continue
        except OSError as fault:
            log.warning("what a router left behind could not be removed: %s", fault)
