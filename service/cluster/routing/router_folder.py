"""A router's private folder, for incoming uploads and its copy of the key file.

A router that is killed leaves its folder behind; the next router on the same machine removes it.
"""

from contextlib import ExitStack
from pathlib import Path

from index.files import make_folder
from service.errors import Misconfigured
from service.storage.temporary_folders import temporary_folder

ROUTERS = "routers"  # in a node's data directory


class RouterFolder:
    """An empty folder, locked until `close` or the end of the process."""

    def __init__(self, data_dir: Path) -> None:
        """Make the folder in a node's data directory, and remove those of dead routers. Misconfigured where nothing can
        be written there."""
        parent = data_dir / ROUTERS
        self._held = ExitStack()
        try:
            make_folder(parent, private=True)
            # A subfolder, since an opened catalog locks its folder, and the temporary one is already locked.
            self.path = self._held.enter_context(temporary_folder("", parent)) / "data"
            self.path.mkdir()
        except OSError as fault:
            raise Misconfigured(
                f"{parent} cannot be written ({fault.strerror}), where a router keeps uploads as they come: give this"
                " user the node's data directory"
            ) from fault

    def close(self) -> None:
        """Remove the folder."""
        self._held.close()
