"""Picture files named on a command line, directly or by their folders, and the other files in these."""

import importlib.util
import os
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from index.catalog.text_index import composed
from service.cli.sidecar_names import sidecars_by_picture
from service.errors import UserError
from service.storage.picture_names import PICTURE_EXTENSIONS, RAW_EXTENSIONS

# fmt: off
LINKS_ELSEWHERE = ("links that lead elsewhere", "links to folders")
RAW_PHOTOGRAPHS = "RAW photographs"  # skipped where the extra `raw` is not installed
SKIPPED_KINDS = {
    "films": {
        ".3gp", ".avi", ".flv", ".m2ts", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".mts", ".webm", ".wmv",
    },
    "sounds": {".aac", ".flac", ".m4a", ".mp3", ".ogg", ".opus", ".wav"},
    "archives": {".7z", ".bz2", ".gz", ".rar", ".tar", ".tgz", ".xz", ".zip"},
}
# fmt: on


LONGEST_ALBUM = 512  # characters, as for any tag


@dataclass
class FoundFiles:
    """Pictures as (name, file), the albums and sidecars of files, and the numbers of skipped files by kind."""

    pictures: list[tuple[str, Path]] = field(default_factory=list)
    albums: dict[Path, str] = field(default_factory=dict)
    sidecars: dict[Path, list[Path]] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)


def find_files(paths: Iterable[Path], sidecars: bool = False) -> FoundFiles:
    """The given files, and all files in the given folders that are named like pictures.

    A picture in a folder is named by its path from that folder, so that names stay distinct. Its album is the path of
    its parent from there, or the name of the given folder itself. Links that lead out of a folder are not followed.
    With `sidecars`, those of pictures in folders are found, too. UserError for a missing path.
    """
    found = FoundFiles()
    for path in paths:
        if path.is_dir():
            _walk(path, found, sidecars)
        elif path.exists() and not path.is_file():  # which might be read without end, or block
            raise UserError(f"{path} is a device or a pipe: name files and folders")
        elif path.exists():
            found.pictures.append((printable(path.name), path))
        else:
            raise UserError(f"there is no {path}")
    return found


def _walk(folder: Path, found: FoundFiles, sidecars: bool) -> None:
    root = folder.resolve()

    def count_unreadable(_: OSError) -> None:
        found.skipped["folders that cannot be read"] += 1

    for parent, folders, names in os.walk(folder, onerror=count_unreadable):  # does not enter folders that are links
        found.skipped["hidden folders"] += sum(name.startswith(".") for name in folders)
        found.skipped[LINKS_ELSEWHERE[1]] += sum(
            (Path(parent) / name).is_symlink() for name in folders if not name.startswith(".")
        )
        folders[:] = sorted((name for name in folders if not name.startswith(".")), key=natural_order)
        pictures, others = list[str](), dict[str, str]()
        for name in sorted(names, key=natural_order):
            file = Path(parent) / name
            if kind := _kind_skipped(file, root):
                others[name] = kind
            else:
                pictures.append(name)
                found.pictures.append((printable(file.relative_to(folder).as_posix()), file))
                if album := album_of(file.relative_to(folder), root):
                    found.albums[file] = album
        beside = sidecars_by_picture(pictures, others) if sidecars else {}
        found.sidecars |= {Path(parent) / name: [Path(parent) / one for one in ones] for name, ones in beside.items()}
        found.skipped.update(others[name] for name in others.keys() - {one for ones in beside.values() for one in ones})
    found.skipped = +found.skipped  # without zero counts


def natural_order(name: str) -> tuple[list[str | int], str]:
    """The key that sorts names with numbers by their values: 9 before 10."""
    parts = re.split(r"([0-9]+)", name)  # alternately text and number
    return [int(part) if place % 2 else part for place, part in enumerate(parts)], name


def can_read_raw() -> bool:
    """Whether the extra `raw` is installed here, which the service needs, too."""
    return importlib.util.find_spec("rawpy") is not None


def album_of(file: Path, root: Path) -> str:
    """The album of a file, given by its path relative to `root`; empty in the root of the file system."""
    album = printable(root.name) if file.parent == Path() else printable(file.parent.as_posix())
    return album[-LONGEST_ALBUM:].strip()


def _kind_skipped(file: Path, root: Path) -> str | None:
    """The kind of a file to skip; None for a picture to take."""
    extension = file.suffix.lower()
    is_raw = extension in RAW_EXTENSIONS
    if file.name.startswith("."):
        return "hidden files"
    if is_raw and not can_read_raw():
        return RAW_PHOTOGRAPHS
    if is_raw or extension in PICTURE_EXTENSIONS:
        if not Path(os.path.realpath(file)).is_relative_to(root):  # realpath also handles loops of links
            return LINKS_ELSEWHERE[0]
        return None if file.is_file() else "links to nothing, and devices"
    for kind, extensions in SKIPPED_KINDS.items():
        if extension in extensions:
            return kind
    return f"{printable(extension)} files" if extension else "files without an extension"


def printable(name: str) -> str:
    """A file name, which may be any bytes, as text that can be sent, with composed letters."""
    return composed(os.fsencode(name).decode("utf-8", "replace"))
