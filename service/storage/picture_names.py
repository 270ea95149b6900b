"""The file names of stored pictures outside the data directory: in the folder of an export, and in archives."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

# fmt: off
PICTURE_EXTENSIONS = frozenset({
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif",
    ".heic", ".heif", ".hif", ".avif",
})
RAW_EXTENSIONS = frozenset({
    ".3fr", ".arw", ".cr2", ".cr3", ".dng", ".erf", ".iiq", ".kdc", ".mef", ".mrw", ".nef", ".nrw", ".orf", ".pef",
    ".raf", ".raw", ".rw2", ".rwl", ".sr2", ".srw", ".x3f",
})
# fmt: on
SHORT_ID = 12  # characters, which distinguish pictures of one name
LONGEST_PORTABLE = 224  # bytes; with a part of its id and an extension, still no more than the 255 of Linux
# What Windows cannot have in a name, where `\\` and `:` also lead to other folders, drives and streams.
NOT_PORTABLE = re.compile(r'[\\:*?"<>|]|[. ]+$')
DEVICES = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?=\.|$)", re.IGNORECASE)  # of Windows, with any extension


def names_of(image_id: str, extension: str, filename: str) -> Iterator[str]:
    """The possible names of a picture in a folder, best first: the name that it was uploaded with, that name with a
    part of its id, and its id.

    No name leads out of the folder or is hidden, and each has a picture's extension, so that `regard ingest` takes it.
    """
    parts = [part for part in filename.split("/") if part not in ("", ".", "..")] or [image_id]
    path = PurePosixPath(*(f"_{part[1:]}" if part.startswith(".") else part for part in parts))
    if not is_picture_name(path):
        path = path.with_name(f"{path.name}.{extension}")
    yield path.as_posix()
    yield path.with_stem(f"{path.stem}-{image_id[:SHORT_ID]}").as_posix()
    yield f"{image_id}.{extension}"


def is_picture_name(path: PurePosixPath) -> bool:
    """Whether a file name has the extension of a picture."""
    return path.suffix.lower() in PICTURE_EXTENSIONS | RAW_EXTENSIONS


def portable_name(filename: str) -> str:
    """A file name that Linux, macOS and Windows can all have: `_` for what Windows cannot, and each part cut, before
    its extension, to LONGEST_PORTABLE bytes."""
    return "/".join(_portable_part(part) for part in filename.split("/"))


def _portable_part(part: str) -> str:
    if part in ("", ".", ".."):  # names_of leaves them out
        return part
    part = NOT_PORTABLE.sub(lambda match: "_" * len(match[0]), part)
    if DEVICES.match(part):
        part = f"_{part}"
    if len(part.encode()) <= LONGEST_PORTABLE:
        return part
    ending = PurePosixPath(part).suffix if is_picture_name(PurePosixPath(part)) else ""
    room = LONGEST_PORTABLE - len(ending.encode())
    return part.encode()[:room].decode(errors="ignore").rstrip(". ") + ending
