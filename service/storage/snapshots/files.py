"""The targets of a snapshot, a folder or a tar archive, and the names allowed for its files."""

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
    """Receives the files of a snapshot, by name."""

    def add_file(self, name: str, path: Path) -> None:
        """Add a file that never changes any more."""

    def add_part(self, name: str, path: Path, size: int) -> None:
        """Add the first `size` bytes of a growing file."""

    def add_bytes(self, name: str, content: bytes) -> None:
        """Add a small file."""

    def close(self) -> None:
        """Complete the snapshot."""

    def discard(self) -> None:
        """Remove an incomplete snapshot."""


class FolderSink:
    """A new folder. Unchanging files are hard-linked if possible, which takes no space."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._existed = folder, folder.exists()
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
        """Wait until all files are on disk."""
        os.sync()

    def discard(self) -> None:
        """Remove the folder, or only its contents if it existed before."""
        with contextlib.suppress(OSError):
            empty_folder(self._folder)
            if not self._existed:
                self._folder.rmdir()


class LinkSink(FolderSink):
    """A new folder that is read at once: growing files are linked, too, of which the first `sizes[name]` bytes are
    valid."""

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
        """Do nothing: the files are not synced, and a power cut may lose them."""


class TarSink:
    """A tar archive, uncompressed because pictures are compressed already. It gets its final name when complete, and
    has one writer until then."""

    def __init__(self, path: Path) -> None:
        """UserError where another process is writing this archive, or has just completed it."""
        self._path, self._temporary = path, path.with_name(f"{path.name}.partial")
        self._file = os.fdopen(_locked(self._temporary), "wb")
        if path.exists():
            self._temporary.unlink()
            self._file.close()
            raise UserError(f"{path} is there already: name another place")
        self._file.truncate()  # drop what a killed writer left
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
        """Complete the archive, and give it its final name once it is on disk."""
        self._tar.close()
        self._file.flush()
        os.sync()
        self._temporary.replace(self._path)
        self._file.close()  # unlocks it; earlier, another writer could have taken it over

    def discard(self) -> None:
        """Remove the archive."""
        self._temporary.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # writes the end of the archive, on a disk that may be full
            self._tar.close()
        with contextlib.suppress(OSError):
            self._file.close()


def _locked(path: Path) -> int:
    """A locked file descriptor of a file, created if needed. UserError where another process has locked it.

    On a file system without locks it stays unlocked.
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
        os.close(handle)  # its writer has meanwhile completed or discarded it


def empty_folder(folder: Path) -> None:
    """Remove everything in a folder."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def copy_bytes(source: io.BufferedIOBase, target: io.BufferedIOBase, size: int) -> None:
    """Copy `size` bytes; OSError where there are fewer."""
    bytes_left = size
    while bytes_left:
        chunk = source.read(min(bytes_left, 1 << 20))
        if not chunk:
            raise OSError(f"a file ends {bytes_left} bytes before its end")
        target.write(chunk)
        bytes_left -= len(chunk)
