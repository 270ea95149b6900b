"""A disk whose state after the worst power cut can be examined: only fsynced bytes and names remain."""

import os
from pathlib import Path

import pytest


class Disk:
    """Follows every fsync below a new folder, and can leave behind what would be found after the worst power cut."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder.mkdir()
        self.folder = folder
        self.content: dict[int, bytes] = {}  # inode -> bytes
        self.names: dict[Path, dict[str, int]] = {}  # folder -> name -> inode
        self.sync = os.fsync
        monkeypatch.setattr(os, "fsync", self.fsync)

    def fsync(self, handle: int) -> None:
        self.sync(handle)
        path = Path(f"/proc/self/fd/{handle}").readlink()
        if path.is_dir():
            self.names[path] = {child.name: child.stat().st_ino for child in path.iterdir()}
        else:
            self.content[os.fstat(handle).st_ino] = path.read_bytes()

    def left(self, target: Path, folder: Path | None = None) -> Path:
        """Write what is left of `folder` to `target`."""
        folder = folder or self.folder
        target.mkdir()
        for name, inode in self.names.get(folder, {}).items():
            if (folder / name).is_dir():
                self.left(target / name, folder / name)
            else:
                (target / name).write_bytes(self.content.get(inode, b""))
        return target
