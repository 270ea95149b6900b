"""The targets of a snapshot, a folder or a tar archive, and the names that its files may have."""

import contextlib
import fcntl
import io
import os
import re
import shutil
import tarfile
from pathlib import Path
from typing import Protocol

from index.files import make_folder
from service.errors import UserError

SNAPSHOT_FORMAT = 1
ABOUT, CATALOG = "snapshot.json", "catalog.sqlite"
SNAPSHOT_FILE = re.compile(
    rf"{re.escape(ABOUT)}|{re.escape(CATALOG)}|extractor/config\.json"
    r"|regions/([0-9a-zA-Z][0-9a-zA-Z_.-]*/)?(header\.json|records\.bin|config\.json)"
    r"|(originals|thumbnails)/(?P<one>[0-9a-f]{2})/(?P<two>[0-9a-f]{2})/(?P<id>(?P=one)(?P=two)[0-9a-f]{28})\.[a-z0-9]{1,8}"
)


class SnapshotSink(Protocol):
    """Takes files by their names in a snapshot."""

    def add_file(self, name: str, path: Path) -> None:
        """Take a file that never changes any more."""

    def add_part(self, name: str, path: Path, size: int) -> None:
        """Take the first `size` bytes of a file that grows."""

    def add_bytes(self, name: str, content: bytes) -> None:
        """Take a small file."""

    def close(self) -> None:
        """End what is complete."""

    def discard(self) -> None:
        """Leave nothing of what is not."""


class FolderSink:
    """A new folder. Files that never change are linked where the file system can, and take no room then."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._was_there = folder, folder.exists()
        make_folder(folder, private=True)

    def _place(self, name: str) -> Path:
        place = self._folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        return place

    def add_file(self, name: str, path: Path) -> None:
        """Link the file, or copy it."""
        place = self._place(name)
        try:
            os.link(path, place)
        except FileNotFoundError:
            raise
        except OSError:  # on another disk, or where there are no links
            shutil.copyfile(path, place)

    def add_part(self, name: str, path: Path, size: int) -> None:
        """Copy the beginning of the file."""
        with path.open("rb") as source, self._place(name).open("xb") as target:
            copy_bytes(source, target, size)

    def add_bytes(self, name: str, content: bytes) -> None:
        """Write the file."""
        self._place(name).write_bytes(content)

    def close(self) -> None:
        """Wait until all of it is on disk."""
        os.sync()

    def discard(self) -> None:
        """Remove the folder, or what was put into one that was there."""
        with contextlib.suppress(OSError):
            empty_folder(self._folder)
            if not self._was_there:
                self._folder.rmdir()


class LinkSink(FolderSink):
    """A new folder to be read soon: also files that grow are linked, of which the first `sizes[name]` bytes count."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.sizes: dict[str, int] = {}

    def add_part(self, name: str, path: Path, size: int) -> None:
        """Link the file, or copy its beginning."""
        self.sizes[name] = size
        try:
            os.link(path, self._place(name))
        except FileNotFoundError:
            raise
        except OSError:
            super().add_part(name, path, size)

    def close(self) -> None:
        """Nothing is synced to disk: all of it may be lost in a power cut."""


class TarSink:
    """A tar archive, uncompressed: pictures are. It has its name once it is complete, and one writer until then."""

    def __init__(self, path: Path) -> None:
        """UserError where another process writes this archive, or has ended it meanwhile."""
        self._path, self._temporary = path, path.with_name(f"{path.name}.partial")
        self._file = os.fdopen(_locked(self._temporary), "wb")
        if path.exists():
            self._temporary.unlink()
            self._file.close()
            raise UserError(f"{path} is there already: name another place")
        self._file.truncate()  # what a writer left that was killed
        self._tar = tarfile.TarFile(self._temporary, "w", fileobj=self._file, format=tarfile.PAX_FORMAT)

    def add_file(self, name: str, path: Path) -> None:
        """Copy the whole file."""
        self.add_part(name, path, path.stat().st_size)

    def add_part(self, name: str, path: Path, size: int) -> None:
        """Copy the beginning of the file."""
        with path.open("rb") as source:
            self._tar.addfile(self._member(name, size), source)

    def add_bytes(self, name: str, content: bytes) -> None:
        """Write the file."""
        self._tar.addfile(self._member(name, len(content)), io.BytesIO(content))

    def _member(self, name: str, size: int) -> tarfile.TarInfo:
        member = tarfile.TarInfo(name)
        member.size, member.mode = size, 0o600
        return member

    def close(self) -> None:
        """End the archive, and give it its name once it is on disk."""
        self._tar.close()
        self._file.flush()
        os.sync()
        self._temporary.replace(self._path)
        self._file.close()  # which unlocks it: not before, or another writer could take it for its own

    def discard(self) -> None:
        """Remove the archive."""
        self._temporary.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # which ends the archive, on a disk that may be full
            self._tar.close()
        with contextlib.suppress(OSError):
            self._file.close()


def _locked(path: Path) -> int:
    """A handle on a file that is made unless it is there, locked. UserError where another process has it.

    Where the file system has no locks it is not locked.
    """
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o660)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise UserError(
                f"another snapshot is being written to {path.with_suffix('')}: name another place"
            ) from None
        except OSError:
            return handle
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), path.stat()):
                return handle
        os.close(handle)  # its writer has ended it, or given it up, in between


def empty_folder(folder: Path) -> None:
    """Remove everything in a folder."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def copy_bytes(source: io.BufferedIOBase, target: io.BufferedIOBase, size: int) -> None:
    """Copy `size` bytes; raises OSError where there are fewer."""
    left = size
    while left:
        chunk = source.read(min(left, 1 << 20))
        if not chunk:
            raise OSError(f"a file ends {left} bytes before its end")
        target.write(chunk)
        left -= len(chunk)
