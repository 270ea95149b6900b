"""The folder that a router has for itself: for uploads as they come, and its copy of the key file.

A router that is killed leaves it behind; the next one that starts on the same machine removes it.
"""

from contextlib import ExitStack
from pathlib import Path

from index.files import make_folder
from service.errors import Misconfigured
from service.storage.temporary_folders import temporary_folder

ROUTERS = "routers"  # in a node's data directory


class RouterFolder:
    """An empty folder, held until `close` or the end of the process, however it ends."""

    def __init__(self, data_dir: Path) -> None:
        """Make it below a node's data directory, and remove those whose routers are gone. Misconfigured where nothing
        can be written there."""
        parent = data_dir / ROUTERS
        self._held = ExitStack()
        try:
            make_folder(parent, private=True)
            # A catalog that is opened locks its folder, as the temporary one is locked already.
            self.path = self._held.enter_context(temporary_folder("", parent)) / "data"
            self.path.mkdir()
        except OSError as fault:
            raise Misconfigured(
                f"{parent} cannot be written ({fault.strerror}), where a router keeps uploads as they come: give this"
                " user the node's data directory"
            ) from fault

    def close(self) -> None:
        """Remove it."""
        self._held.close()
