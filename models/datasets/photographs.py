"""Opening of picture files as upright pictures, and the reason why one cannot be opened."""

from pathlib import Path

import PIL.Image

from models.pictures import ORIENTATION, size_within, upright_rgb

CHECKED_SIDE = 32  # pixels: at this size a JPEG is decoded several times faster, but still read to its end
SIDEWAYS = (5, 6, 7, 8)  # EXIF orientations that swap width and height
FAULTS = (OSError, ValueError, SyntaxError, PIL.Image.DecompressionBombError)  # of Pillow, for damaged files


class UnreadablePhotograph(OSError):
    """A file that is not a whole picture; the message names it and says why."""


def open_upright(path: Path, longest_side: int | None = None) -> PIL.Image.Image:
    """The upright picture in RGB, with sides of at most `longest_side` pixels. Raises UnreadablePhotograph if the file
    is not a whole picture."""
    return open_reduced(path, longest_side)[0]


def open_reduced(path: Path, longest_side: int | None) -> tuple[PIL.Image.Image, tuple[int, int]]:
    """The picture of `open_upright`, and its upright size before reduction. Raises UnreadablePhotograph like that."""
    try:
        return _opened(path, longest_side)
    except FAULTS as fault:
        raise UnreadablePhotograph(f"{path}: {_reason(fault)}") from fault


def _opened(path: Path, longest_side: int | None) -> tuple[PIL.Image.Image, tuple[int, int]]:
    """The result of `open_reduced`, with Pillow's own exceptions (FAULTS)."""
    with PIL.Image.open(path) as image:
        full = image.size
        if longest_side is not None:
            image.draft("RGB", size_within(full, longest_side))  # JPEG only: decodes at a half, a quarter or an eighth
        image.load()
        if image.format == "TIFF":  # Pillow rotates it while loading
            full = image.size
        orientation = _orientation(image)
        picture = upright_rgb(image, orientation, size_within(full, longest_side or max(full)))
    return picture, full[::-1] if orientation in SIDEWAYS else full


def _orientation(image: PIL.Image.Image) -> int:
    """EXIF's orientation of a loaded picture; 1 (upright) if EXIF is damaged."""
    try:
        return int(image.getexif().get(ORIENTATION, 1))
    except (*FAULTS, TypeError):
        return 1


def why_unreadable(path: Path) -> str | None:
    """The reason why a file is not a whole picture, after reading all of it; None for one that `open_upright` opens."""
    try:
        _opened(path, CHECKED_SIDE)
    except FAULTS as fault:
        return _reason(fault)
    return None


def _reason(fault: BaseException) -> str:
    if isinstance(fault, PIL.UnidentifiedImageError):
        return "is no picture that can be read"
    if isinstance(fault, OSError) and fault.strerror:
        return fault.strerror
    return f"is damaged, or no picture ({fault})"
