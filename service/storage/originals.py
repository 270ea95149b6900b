"""The uploaded bytes, kept as they came, and the files made of them: thumbnails, and pictures without metadata."""

import fcntl
import hashlib
import os
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
    """A picture's id: the first 32 hex digits of its bytes' SHA-256."""
    return sha256[:32]


def image_id_of_file(path: Path) -> str:
    """The id that a file's picture has once it is stored. Raises OSError where the file cannot be read."""
    with path.open("rb") as file:
        return image_id_of(hashlib.file_digest(file, "sha256").hexdigest())


class StagedFile(NamedTuple):
    """A complete file under `Originals.incoming` and where it belongs."""

    path: Path
    image_id: str
    extension: str


class Originals:
    """Files under DATA named by image id alone, so that no uploaded name ever becomes a path."""

    def __init__(self, data_dir: Path, write: bool = True, incoming: Path | None = None) -> None:
        """Folders are made when `write`; uploads are received in `incoming` where it is given."""
        folders = DataDir(data_dir)
        self.incoming = incoming or folders.incoming
        self._originals, self._thumbnails, self._stripped = folders.originals, folders.thumbnails, folders.stripped
        self._this_thread = threading.local()
        self._durable = set[str]()  # folders of originals whose names this process has synced
        for folder in (self.incoming, self._originals, self._thumbnails, self._stripped) if write else ():
            make_folder(folder)

    @property
    def picture_folders(self) -> list[Path]:
        """The folders that decoding reads from."""
        return [self.incoming, self._originals]

    def path(self, image_id: str, extension: str) -> Path:
        """The path of a picture's original, which need not be there."""
        return _spread(self._originals, image_id, extension)

    def holds(self, image_id: str, extension: str) -> bool:
        """Whether the picture's original is there, with every byte that was taken in. It is read for that."""
        try:
            return image_id_of_file(self.path(image_id, extension)) == image_id
        except OSError:  # gone, or unreadable
            return False

    def thumbnail(self, image_id: str) -> Path:
        """The path of a picture's thumbnail, which need not be there."""
        return _spread(self._thumbnails, image_id, "jpg")

    def stripped(self, image_id: str, extension: str) -> Path:
        """The path of a picture's file without metadata, which need not be there.

        `extension` is the original's; a file that was encoded again ends with `jpg` instead.
        """
        return _spread(self._stripped, image_id, extension)

    def find_thumbnail(self, image_id: str) -> Path | None:
        """The picture's thumbnail where it has been made."""
        path = self.thumbnail(image_id)
        return path if _has_content(path) else None

    def find_stripped(self, image_id: str, extension: str) -> Path | None:
        """The picture's file without metadata where it has been made."""
        for ending in dict.fromkeys((extension, "jpg")):
            path = self.stripped(image_id, ending)
            if _has_content(path):
                return path
        return None

    def derived_files(self, image_id: str, extension: str) -> list[Path]:
        """The paths of everything that is made of an original, whether it is there or not."""
        return [self.thumbnail(image_id), *(self.stripped(image_id, one) for one in dict.fromkeys((extension, "jpg")))]

    @contextmanager
    def adding(self) -> Iterator[None]:
        """Files that are stored inside the block stay until its end, by when the catalog is to know them.

        A block begins once nobody waits any more to remove files, unless it lies in another one of its thread.
        """
        with opened_folder(self._originals) as folder:
            if not getattr(self._this_thread, "is_adding", False):
                self._pass_turnstile()
            fcntl.flock(folder, fcntl.LOCK_SH)
            before, self._this_thread.is_adding = getattr(self._this_thread, "is_adding", False), True
            try:
                yield
            finally:
                self._this_thread.is_adding = before

    def _pass_turnstile(self) -> None:
        """Wait until nobody waits to remove files, who would else wait for ever while others come and go."""
        if self.incoming.is_dir():  # otherwise nobody who writes has opened this directory yet
            with opened_folder(self.incoming) as turnstile:
                fcntl.flock(turnstile, fcntl.LOCK_SH)

    @contextmanager
    def removing(self, patience_s: float = 0.0) -> Iterator[bool]:
        """True where files may be removed inside the block, False while any process is adding some, for so long.

        Nobody begins to add files meanwhile.
        """
        with opened_folder(self._originals) as folder:
            end, free = time.monotonic() + patience_s, _try_lock(folder)
            if not free and patience_s:
                with opened_folder(self.incoming) as turnstile:
                    while not free and time.monotonic() < end:
                        _try_lock(turnstile)
                        time.sleep(BETWEEN_TRIES_S)
                        free = _try_lock(folder)
            yield free

    def remove(self, image_id: str, extension: str) -> None:
        """Remove the original and everything made of it, half-written files of killed processes included.

        What is not there is no error.
        """
        derived = self.derived_files(image_id, extension)
        for path in (self.path(image_id, extension), *derived, *chain.from_iterable(map(half_written, derived))):
            with suppress(FileNotFoundError, NotADirectoryError):  # the latter where a file has the name of a folder
                path.unlink()

    def store(self, files: Iterable[StagedFile]) -> None:
        """Move files to their places; on return they survive a power cut. Repeating it does no harm."""
        folders: set[Path] = set()
        for file in files:
            place = self.path(file.image_id, file.extension)
            place.parent.mkdir(parents=True, exist_ok=True)
            sync_file(file.path)
            reach(FaultPoint.ORIGINAL_WRITTEN)
            shown = self.stripped(file.image_id, file.extension)
            with suppress(OSError):  # what is replaced may be damaged, and shown
                if shown.samefile(place):
                    shown.unlink()
            file.path.replace(place)
            reach(FaultPoint.ORIGINAL_RENAMED)
            folders.add(place.parent)
        # A folder that is there may be of another upload, which has not synced its name yet.
        unsure = {one for folder in folders for one in (folder, folder.parent) if str(one) not in self._durable}
        for folder in sorted(folders | {one.parent for one in unsure}):
            sync_folder(folder)
        self._durable.update(map(str, unsure))


@contextmanager
def opened_folder(folder: Path) -> Iterator[int]:
    """A handle on the folder, such as a lock is held by."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield handle
    finally:
        os.close(handle)


def _has_content(path: Path) -> bool:
    """Whether the file is there. An empty one is none: a power cut left such ones before their bytes were synced."""
    try:
        return path.stat().st_size > 0
    except OSError:  # a folder that cannot be looked into has none either
        return False


def _spread(root: Path, image_id: str, extension: str) -> Path:
    # 65 536 folders keep each one small in a library of millions.
    return root / image_id[:2] / image_id[2:4] / f"{image_id}.{extension}"


def _try_lock(folder: int) -> bool:
    """Lock the folder for this process alone; False where others have it."""
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
