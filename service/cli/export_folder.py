"""The folder of an export: original files of stored pictures, and their descriptions.

No file is overwritten but the list of descriptions, whose lines about other pictures stay.
"""

import errno
import json
import os
from collections import defaultdict
from collections.abc import Container, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from index.catalog.changes.decided_fields import WHOLE_DESCRIPTION
from index.files import replace_file
from models.datasets.captions import iter_captions
from service.storage.originals import image_id_of_file
from service.storage.picture_names import names_of

if TYPE_CHECKING:
    from regard_client.answers import ImageListed

DESCRIPTIONS = "descriptions.jsonl"
# A name may be too long for the disk, or need a folder where another picture's file lies.
NO_NAME_HERE = frozenset({errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.EINVAL, errno.EILSEQ})


class ExportFolder:
    """A folder with originals under the names that they were uploaded with, and `descriptions.jsonl`."""

    def __init__(self, root: Path) -> None:
        """ValueError where the folder's descriptions.jsonl is of another kind."""
        self._root = root
        self._lines: dict[str, dict[str, Any]] = {}
        self._names = defaultdict[str, list[str]](list)  # picture id -> files that exports wrote
        if (known := root / DESCRIPTIONS).exists():
            for line in iter_captions(known):
                self._lines[line.image] = {"image": line.image, "captions": list(line.captions), **line.others}
        for name, entry in self._lines.items():
            if isinstance(image_id := entry.get("image_id"), str) and self._is_below(name):
                self._names[image_id].append(name)

    def find(self, image_id: str, extension: str, filename: str) -> str | None:
        """The name of a file in the folder with this picture's bytes; None where there is none.

        A file that an earlier export wrote under another name is renamed, if the new name is free.
        """
        names = list(names_of(image_id, extension, filename))
        match = next((name for name in names if self._id_at(name) == image_id), None)
        if match is None and (former := self._former_names(image_id)):
            match = self._renamed(former[0], names)
        return match

    def _id_at(self, name: str) -> str | None:
        with suppress(OSError, ValueError):
            return image_id_of_file(self._root / name)
        return None

    def _is_below(self, name: str) -> bool:
        """Whether a name stays inside the folder, also through links."""
        with suppress(OSError, ValueError, RuntimeError):  # RuntimeError: a loop of links
            return (self._root / name).parent.resolve().is_relative_to(self._root.resolve())
        return False

    def _make_folder_of(self, name: str) -> bool:
        """Make the parent folder of a file of this name. Returns False where a link leads out of the export."""
        if not self._is_below(name):
            return False
        (self._root / name).parent.mkdir(parents=True, exist_ok=True)
        return True

    def _former_names(self, image_id: str) -> list[str]:
        """The names of files with this picture's bytes that earlier exports wrote."""
        return [name for name in self._names[image_id] if self._id_at(name) == image_id]

    def _renamed(self, name: str, names: Sequence[str]) -> str:
        """The new name of a file, which is renamed to the first of `names` that is free, if any."""
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
        """The names of files that earlier exports wrote for pictures that are no longer listed."""
        gone = (names for image_id, names in self._names.items() if image_id not in listed)
        return sorted(name for names in gone for name in names if self._is_there(name))

    def _is_there(self, name: str) -> bool:
        try:
            os.fsencode(name)
            return (self._root / name).exists()
        except UnicodeEncodeError:  # unknown in this locale, so it may be
            return True
        except ValueError:
            return False

    def add(self, image_id: str, extension: str, filename: str, content: bytes) -> str:
        """Write a file under the first of its names that is free. Returns that name. Raises OSError where it cannot be
        written."""
        for name in names_of(image_id, extension, filename):
            path = self._root / name
            try:
                if self._make_folder_of(name) and not path.exists():
                    replace_file(path, content)
                    return name
            except UnicodeEncodeError:  # a name that the locale cannot represent
                continue
            except OSError as fault:
                if fault.errno not in NO_NAME_HERE:
                    raise
        raise FileExistsError(errno.EEXIST, "another file has this name", str(path))

    def describe(self, name: str, image: "ImageListed") -> None:
        """Record the description of a picture, for `save`.

        That of a ready picture is complete: its file's own metadata is already in it, except for what was removed.
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
        for file in names:
            if file == name or self._id_at(file) == image["image_id"]:  # a copy
                self._lines[file] = {"image": file, **known}

    def save(self) -> Path:
        """Write the descriptions of all pictures in the folder, also of earlier exports. Returns the list's path."""
        lines = [line for name, line in sorted(self._lines.items()) if self._is_there(name)]
        text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
        replace_file(path := self._root / DESCRIPTIONS, text.encode())
        return path
