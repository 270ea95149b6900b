"""Picture files that a command line names: single ones, and those of folders."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from service.errors import UserError

PICTURE_EXTENSIONS = frozenset({".jpg", ".jpeg", ".jpe", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif"})


def picture_files(paths: Iterable[Path]) -> Iterator[tuple[str, Path]]:
    """(name, file): files as they are, folders with everything below that is named like a picture.

    Within a folder the name is the path from there, so that two pictures of one name stay apart. Links that
    lead out of a folder are not followed. UserError for what is not there.
    """
    for path in paths:
        if path.is_dir():
            yield from _below(path)
        elif path.exists():
            yield printable(path.name), path
        else:
            raise UserError(f"there is no {path}")


def _below(folder: Path) -> Iterator[tuple[str, Path]]:
    root = folder.resolve()
    for parent, folders, names in os.walk(folder):  # does not enter folders that are links
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            file = Path(parent) / name
            if file.suffix.lower() not in PICTURE_EXTENSIONS or name.startswith("."):
                continue
            if file.is_file() and file.resolve().is_relative_to(root):
                yield printable(file.relative_to(folder).as_posix()), file


def printable(name: str) -> str:
    """A file name as text that can be sent, whatever bytes it is made of."""
    return os.fsencode(name).decode("utf-8", "replace")
