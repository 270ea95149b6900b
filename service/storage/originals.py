"""The uploaded files, unchanged, and the files made from them: thumbnails, and copies without metadata."""

import fcntl
import hashlib
import os
import stat
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from index.fault_points import FaultPoint, reach
from index.files import half_written, make_folder, sync_file, sync_folder
from service.storage.data_dir import DataDir

BETWEEN_TRIES_S = 0.01


def image_id_of(sha256: str) -> str:
    """A picture's id: the first 32 hex digits of the SHA-256 of its bytes."""
    return sha256[:32]


def image_id_of_file(path: Path) -> str:
    """The id that a file's picture would have. Raises OSError where the file cannot be read."""
    with path.open("rb") as file:
        return image_id_of(hashlib.file_digest(file, "sha256").hexdigest())


class StagedFile(NamedTuple):
    """A complete file under `Originals.incoming`, and the picture that it belongs to."""

    path: Path
    image_id: str
    extension: str


class Originals:
    """Files named by image id alone, so that no uploaded name ever becomes a path."""

    def __init__(self, data_dir: Path, write: bool = True, incoming: Path | None = None) -> None:
        """Folders are created when `write`; uploads are received in `incoming` if given."""
        folders = DataDir(data_dir)
        self.incoming = incoming or folders.incoming
        self._originals, self._thumbnails, self._stripped = folders.originals, folders.thumbnails, folders.stripped
        self._this_thread = threading.local()
        self._durable = set[str]()  # folders whose entries in their parents this process has synced
        for folder in (self.incoming, self._originals, self._thumbnails, self._stripped) if write else ():
            make_folder(folder)

    @property
    def picture_folders(self) -> list[Path]:
        """The folders that decoding reads from."""
        return [self.incoming, self._originals]

    def path(self, image_id: str, extension: str) -> Path:
        """The path of a picture's original, which may be missing."""
        return _spread(self._originals, image_id, extension)

    def lacks(self, image_id: str, extension: str, num_bytes: int) -> bool:
        """Whether the picture's original is missing, cannot be read, or has another size than it had: all that is seen
        without reading it."""
        path = self.path(image_id, extension)
        try:
            status = path.stat()
        except OSError:
            return True
        return not stat.S_ISREG(status.st_mode) or status.st_size != num_bytes or not os.access(path, os.R_OK)

    def holds(self, image_id: str, extension: str) -> bool:
        """Whether the picture's original is present and intact. The whole file is read."""
        try:
            return image_id_of_file(self.path(image_id, extension)) == image_id
        except OSError:  # gone, or unreadable
            return False

    def thumbnail(self, image_id: str) -> Path:
        """The path of a picture's thumbnail, which may be missing."""
        return _spread(self._thumbnails, image_id, "jpg")

    def stripped(self, image_id: str, extension: str) -> Path:
        """The path of a picture's file without metadata, which may be missing.

        `extension` is the original's; a re-encoded file ends with `jpg` instead.
        """
        return _spread(self._stripped, image_id, extension)

    def find_thumbnail(self, image_id: str) -> Path | None:
        """The picture's thumbnail if it has been made."""
        path = self.thumbnail(image_id)
        return path if _has_content(path) else None

    def find_stripped(self, image_id: str, extension: str) -> Path | None:
        """The picture's file without metadata if it has been made."""
        for ending in dict.fromkeys((extension, "jpg")):
            path = self.stripped(image_id, ending)
            if _has_content(path):
                return path
        return None

    def derived_files(self, image_id: str, extension: str) -> list[Path]:
        """The paths of all files made from an original, whether they exist or not."""
        endings = dict.fromkeys((extension, "jpg"))
        return [self.thumbnail(image_id), *(self.stripped(image_id, ending) for ending in endings)]

    @contextmanager
    def adding(self) -> Iterator[None]:
        """Protect files that are stored inside the block from removal; by its end the catalog should know them.

        A block first lets processes that wait to remove files go ahead, unless it is nested in another one of its
        thread.
        """
        with opened_folder(self._originals) as folder:
            if not getattr(self._this_thread, "is_adding", False):
                self._pass_turnstile()
            fcntl.flock(folder, fcntl.LOCK_SH)
            was_adding, self._this_thread.is_adding = getattr(self._this_thread, "is_adding", False), True
            try:
                yield
            finally:
                self._this_thread.is_adding = was_adding

    def _pass_turnstile(self) -> None:
        """Wait until no process waits to remove files; without this, overlapping additions could keep it waiting for
        ever."""
        if self.incoming.is_dir():  # otherwise no writer has opened this directory yet
            with opened_folder(self.incoming) as turnstile:
                fcntl.flock(turnstile, fcntl.LOCK_SH)

    @contextmanager
    def removing(self, patience_s: float = 0.0) -> Iterator[bool]:
        """True if files may be removed inside the block; False where others keep adding files for `patience_s`.

        No process can begin to add files while the block runs.
        """
        with opened_folder(self._originals) as folder:
            deadline, is_locked = time.monotonic() + patience_s, _try_lock(folder)
            if not is_locked and patience_s:
                with opened_folder(self.incoming) as turnstile:
                    while not is_locked and time.monotonic() < deadline:
                        _try_lock(turnstile)
                        time.sleep(BETWEEN_TRIES_S)
                        is_locked = _try_lock(folder)
            yield is_locked

    def remove(self, image_id: str, extension: str) -> None:
        """Remove the original and everything made from it, including half-written files of killed processes.

        Missing files are no error.
        """
        derived = self.derived_files(image_id, extension)
        for path in (self.path(image_id, extension), *derived, *chain.from_iterable(map(half_written, derived))):
            with suppress(
                FileNotFoundError, NotADirectoryError
            ):  # the latter where a file lies in the place of a folder
                path.unlink()

    def store(self, files: Iterable[StagedFile]) -> None:
        """Move files to their final paths; on return they survive a power cut. Repeating it does no harm."""
        folders: set[Path] = set()
        for file in files:
            place = self.path(file.image_id, file.extension)
            place.parent.mkdir(parents=True, exist_ok=True)
            sync_file(file.path)
            reach(FaultPoint.ORIGINAL_WRITTEN)
            stripped = self.stripped(file.image_id, file.extension)
            with suppress(OSError):  # a hard link to the replaced original, which may be damaged
                if stripped.samefile(place):
                    stripped.unlink()
            file.path.replace(place)
            reach(FaultPoint.ORIGINAL_RENAMED)
            folders.add(place.parent)
        # An existing folder may have been made by another upload, which has not synced its name yet.
        unsynced = {path for folder in folders for path in (folder, folder.parent) if str(path) not in self._durable}
        for folder in sorted(folders | {path.parent for path in unsynced}):
            sync_folder(folder)
        self._durable.update(map(str, unsynced))


@contextmanager
def opened_folder(folder: Path) -> Iterator[int]:
    """A file descriptor of the folder, for locking it."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield handle
    finally:
        os.close(handle)


def _has_content(path: Path) -> bool:
    """Whether the file exists and is not empty: a power cut before the sync of its bytes leaves an empty one."""
    try:
        return path.stat().st_size > 0
    except OSError:  # missing, or in an unreadable folder
        return False


def _spread(root: Path, image_id: str, extension: str) -> Path:
    # 65 536 folders stay small in a library of millions.
    return root / image_id[:2] / image_id[2:4] / f"{image_id}.{extension}"


def _try_lock(folder: int) -> bool:
    """Lock the folder exclusively; False where others hold a lock."""
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
