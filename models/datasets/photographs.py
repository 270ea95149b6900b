"""Picture files, opened upright; and which of them cannot be."""

from pathlib import Path

import PIL.Image
import PIL.ImageOps

CHECKED_SIDE = 32  # pixels, at which a JPEG is decoded several times faster, and still read to its end
FAULTS = (OSError, ValueError, SyntaxError, PIL.Image.DecompressionBombError)  # of Pillow, for damaged files


class UnreadablePhotograph(OSError):
    """A file that is no whole picture; the message names it and says why."""


def open_upright(path: Path) -> PIL.Image.Image:
    """The picture in RGB, turned as its camera was. UnreadablePhotograph."""
    try:
        with PIL.Image.open(path) as picture:
            return PIL.ImageOps.exif_transpose(picture).convert("RGB")
    except FAULTS as fault:
        raise UnreadablePhotograph(f"{path}: {_reason(fault)}") from fault


def why_unreadable(path: Path) -> str | None:
    """The reason why a file is no whole picture; None for one that is. Reads all of it."""
    try:
        with PIL.Image.open(path) as picture:
            picture.draft("RGB", (CHECKED_SIDE, CHECKED_SIDE))
            picture.load()
    except FAULTS as fault:
        return _reason(fault)
    return None


def _reason(fault: BaseException) -> str:
    if isinstance(fault, PIL.UnidentifiedImageError):
        return "is no picture that can be read"
    if isinstance(fault, OSError) and fault.strerror:
        return fault.strerror
    return f"is damaged, or no picture ({fault})"
