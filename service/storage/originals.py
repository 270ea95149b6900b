"""The uploaded bytes, kept as they came, and the thumbnails made of them."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from index.files import make_folder, sync_file, sync_folder
from service.storage.data_dir import DataDir


def image_id_of(sha256: str) -> str:
    """A picture's id: the first 32 hex digits of its bytes' SHA-256."""
    return sha256[:32]


class StagedFile(NamedTuple):
    """A complete file under `Originals.incoming` and where it belongs."""

    path: Path
    image_id: str
    extension: str


class Originals:
    """Files under DATA named by image id alone, so that no uploaded name ever becomes a path."""

    def __init__(self, data_dir: Path) -> None:
        folders = DataDir(data_dir)
        self.incoming, self._originals, self._thumbnails = folders.incoming, folders.originals, folders.thumbnails
        for folder in (self.incoming, self._originals, self._thumbnails):
            make_folder(folder)

    def path(self, image_id: str, extension: str) -> Path:
        """The path of a picture's original, which need not be there."""
        return _spread(self._originals, image_id, extension)

    def thumbnail(self, image_id: str) -> Path:
        """The path of a picture's thumbnail, which need not be there."""
        return _spread(self._thumbnails, image_id, "jpg")

    def store(self, files: Iterable[StagedFile]) -> None:
        """Move files to their places; on return they survive a power cut. Repeating it does no harm."""
        folders: set[Path] = set()
        for file in files:
            place = self.path(file.image_id, file.extension)
            make_folder(place.parent)
            sync_file(file.path)
            file.path.replace(place)
            folders.add(place.parent)
        for folder in sorted(folders):
            sync_folder(folder)


def _spread(root: Path, image_id: str, extension: str) -> Path:
    # 65 536 folders keep each one small in a library of millions.
    return root / image_id[:2] / image_id[2:4] / f"{image_id}.{extension}"
