"""The file names of stored pictures outside the data directory: in the folder of an export, and in archives."""

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
