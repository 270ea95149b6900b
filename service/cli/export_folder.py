"""The folder that stored pictures are taken out to: their original files, and what is known of them.

Nothing there is written over but the list of descriptions, whose lines about other pictures stay.
"""

import errno
import json
import os
from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from index.catalog.changes.decided_fields import WHOLE_DESCRIPTION
from index.files import replace_file
from models.datasets.captions import iter_captions
from service.cli.picture_files import PICTURE_EXTENSIONS, RAW_EXTENSIONS
from service.storage.originals import image_id_of_file

if TYPE_CHECKING:
    from regard_client.answers import ImageListed

DESCRIPTIONS = "descriptions.jsonl"
SHORT_ID = 12  # characters, which tell pictures of one name apart
# A name may be too long for the disk, or a folder's where another picture's file lies.
NO_NAME_HERE = frozenset({errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.EINVAL, errno.EILSEQ})


class ExportFolder:
    """A folder with originals below it, by the names that they were sent by, and `descriptions.jsonl`."""

    def __init__(self, root: Path) -> None:
        """ValueError where the folder's list of descriptions is none."""
        self._root = root
        self._lines: dict[str, dict[str, Any]] = {}
        self._names = defaultdict[str, list[str]](list)  # of files that exports wrote, by the ids of their pictures
        if (known := root / DESCRIPTIONS).exists():
            for said in iter_captions(known):
                self._lines[said.image] = {"image": said.image, "captions": list(said.captions), **said.others}
        for name, line in self._lines.items():
            if isinstance(image_id := line.get("image_id"), str) and self._is_below(name):
                self._names[image_id].append(name)

    def find(self, image_id: str, extension: str, filename: str) -> str | None:
        """The name below the folder of a file with this picture's very bytes; None where there is none.

        One that an earlier export wrote by another name gets that of now, where no other file has it.
        """
        names = list(names_of(image_id, extension, filename))
        found = next((name for name in names if self._id_at(name) == image_id), None)
        if found is None and (before := self._names_before(image_id)):
            found = self._renamed(before[0], names)
        return found

    def _id_at(self, name: str) -> str | None:
        with suppress(OSError, ValueError):
            return image_id_of_file(self._root / name)
        return None

    def _is_below(self, name: str) -> bool:
        """Whether a name leads nowhere out of the folder, by way of links neither."""
        with suppress(OSError, ValueError, RuntimeError):  # the last of links that lead to themselves
            return (self._root / name).parent.resolve().is_relative_to(self._root.resolve())
        return False

    def _make_folder_of(self, name: str) -> bool:
        """Make the folder that a file of this name lies in; False where a link leads out of the export."""
        if not self._is_below(name):
            return False
        (self._root / name).parent.mkdir(parents=True, exist_ok=True)
        return True

    def _names_before(self, image_id: str) -> list[str]:
        """The names of files with this picture's bytes that exports wrote."""
        return [name for name in self._names[image_id] if self._id_at(name) == image_id]

    def _renamed(self, name: str, names: Sequence[str]) -> str:
        """The name that a file has from now on: the first of these that no other has, or else its own."""
        for new in names:
            with suppress(OSError, ValueError):
                path = self._root / new
                if self._make_folder_of(new) and not path.exists():
                    (self._root / name).rename(path)
                    line = self._lines.pop(name)
                    self._lines[new] = {**line, "image": new}
                    self._names[line["image_id"]].remove(name)
                    self._names[line["image_id"]].append(new)
                    return new
        return name

    def no_longer_listed(self, listed: Container[str]) -> list[str]:
        """The names of files that earlier exports wrote, of pictures whose ids are not among those that are listed."""
        gone = (names for image_id, names in self._names.items() if image_id not in listed)
        return sorted(name for names in gone for name in names if self._is_there(name))

    def _is_there(self, name: str) -> bool:
        try:
            os.fsencode(name)
            return (self._root / name).exists()
        except UnicodeEncodeError:  # it may be: this locale cannot tell
            return True
        except ValueError:
            return False

    def add(self, image_id: str, extension: str, filename: str, content: bytes) -> str:
        """Write a file under the first of its names that no other file has. Returns that name; raises OSError where the
        file cannot be written."""
        for name in names_of(image_id, extension, filename):
            path = self._root / name
            try:
                if self._make_folder_of(name) and not path.exists():
                    replace_file(path, content)
                    return name
            except UnicodeEncodeError:  # a name that the locale cannot write
                continue
            except OSError as fault:
                if fault.errno not in NO_NAME_HERE:
                    raise
        raise FileExistsError(errno.EEXIST, "another file has this name", str(path))

    def describe(self, name: str, image: "ImageListed") -> None:
        """Keep what is known of a picture, for `save`.

        Of one whose regions are found that is all: what its file says is in it, but for what was taken away.
        """
        known: dict[str, Any] = {
            "image_id": image["image_id"],
            "captions": image["captions"],
            "tags": image["tags"],
            "taken_at": image["taken_at"],
            **({"decided": list(WHOLE_DESCRIPTION)} if image["state"] == "ready" else {}),
        }
        names = self._names[image["image_id"]]
        if name not in names:
            names.append(name)
        for one in names:
            if one == name or self._id_at(one) == image["image_id"]:  # a copy
                self._lines[one] = {"image": one, **known}

    def save(self) -> Path:
        """Write the descriptions of all pictures that lie here, those of former times among them; where they stand."""
        lines = [line for name, line in sorted(self._lines.items()) if self._is_there(name)]
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
