"""The folder that stored pictures are taken out to: their original files, and what is known of them.

Nothing there is written over but the list of descriptions, whose lines about other pictures stay.
"""

import errno
import json
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from index.decided_fields import WHOLE_DESCRIPTION
from index.files import replace_file
from models.datasets.captions import iter_captions
from service.cli.picture_files import PICTURE_EXTENSIONS, RAW_EXTENSIONS
from service.storage.originals import image_id_of_file

if TYPE_CHECKING:
    from regard_client.answers import ImageListed

DESCRIPTIONS = "descriptions.jsonl"
SHORT_ID = 12  # characters, which tell pictures of one name apart
# A name may be too long for the disk, or a folder's where another picture's file lies.
NO_NAME_HERE = frozenset({errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.EINVAL})


class ExportFolder:
    """A folder with originals below it, by the names that they were sent by, and `descriptions.jsonl`."""

    def __init__(self, root: Path) -> None:
        """ValueError where the folder's list of descriptions is none."""
        self._root = root
        self._lines: dict[str, dict[str, Any]] = {}
        if (known := root / DESCRIPTIONS).exists():
            for line in iter_captions(known):
                self._lines[line.image] = {"image": line.image, "captions": list(line.captions), **line.others}

    def find(self, image_id: str, extension: str, filename: str) -> str | None:
        """The name below the folder of a file with this picture's very bytes; None where there is none."""
        for name in names_of(image_id, extension, filename):
            try:
                if image_id_of_file(self._root / name) == image_id:
                    return name
            except OSError:
                continue
        return None

    def add(self, image_id: str, extension: str, filename: str, content: bytes) -> str:
        """Write a file under the first of its names that no other file has; that name. OSError."""
        for name in names_of(image_id, extension, filename):
            path = self._root / name
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                if not path.exists():
                    replace_file(path, content)
                    return name
            except OSError as fault:
                if fault.errno not in NO_NAME_HERE:
                    raise
        raise FileExistsError(errno.EEXIST, "another file has this name", str(path))

    def describe(self, name: str, image: "ImageListed") -> None:
        """Keep what is known of a picture, for `save`.

        Of one whose regions are found that is all: what its file says is in it, but for what was taken away.
        """
        self._lines[name] = {
            "image": name,
            "captions": image["captions"],
            "tags": image["tags"],
            "taken_at": image["taken_at"],
            **({"decided": list(WHOLE_DESCRIPTION)} if image["state"] == "ready" else {}),
        }

    def save(self) -> Path:
        """Write the descriptions of all pictures that lie here, those of former times among them; where they stand."""
        lines = [line for name, line in sorted(self._lines.items()) if (self._root / name).exists()]
        text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
        replace_file(path := self._root / DESCRIPTIONS, text.encode())
        return path


def names_of(image_id: str, extension: str, filename: str) -> Iterator[str]:
    """The names that a picture may get below a folder, the best first: the one that it was sent by, that with a part of
    its id, and its id.

    None leads out of the folder or is hidden, and each ends as files of pictures do, so that `regard ingest` takes it.
    """
    parts = [part for part in filename.split("/") if part not in ("", ".", "..")] or [image_id]
    path = PurePosixPath(*(f"_{part[1:]}" if part.startswith(".") else part for part in parts))
    if not is_picture_name(path):
        path = path.with_name(f"{path.name}.{extension}")
    yield path.as_posix()
    yield path.with_stem(f"{path.stem}-{image_id[:SHORT_ID]}").as_posix()
    yield f"{image_id}.{extension}"


def is_picture_name(path: PurePosixPath) -> bool:
    """Whether a file is named as files of pictures are."""
    return path.suffix.lower() in PICTURE_EXTENSIONS | RAW_EXTENSIONS
