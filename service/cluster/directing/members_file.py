"""The file of a shard's members, written before a change is acknowledged that a replica lacks."""

import json
from pathlib import Path

from index.files import make_folder, replace_file


class MembersFile:
    """A small file of replicas' numbers."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> frozenset[int] | None:
        """The numbers; None where there is no file."""
        return frozenset(json.loads(self._path.read_bytes())) if self._path.is_file() else None

    def write(self, members: frozenset[int]) -> None:
        """Write the numbers durably."""
        make_folder(self._path.parent)
        replace_file(self._path, json.dumps(sorted(members)).encode())
