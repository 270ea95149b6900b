"""From a picture file to upright RGB pixels, a JPEG or a thumbnail. Imports Pillow alone; runs in decode_child."""

import io
import os
import re
import struct
import zlib
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import PIL.Image
from PIL import TiffImagePlugin, WebPImagePlugin  # noqa: F401 - Pillow would look for them among all plugins

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "TIFF", "GIF")
PICTURE_SIDE = 1333  # pixels of the longest side given to a detector
THUMBNAIL_SIDE = 320

# What Pillow's decoders raise on damaged files, beside an OSError without a number.
DAMAGE = (
    SyntaxError,
    ValueError,
    EOFError,
    LookupError,
    TypeError,
    ArithmeticError,
    struct.error,
    zlib.error,
    PIL.Image.DecompressionBombError,
    PIL.Image.DecompressionBombWarning,
)

ORIENTATION, EXIF_IFD, TAKEN, TAKEN_OFFSET = 0x0112, 0x8769, 0x9003, 0x9011
UPRIGHT = {
    2: PIL.Image.Transpose.FLIP_LEFT_RIGHT,
    3: PIL.Image.Transpose.ROTATE_180,
    4: PIL.Image.Transpose.FLIP_TOP_BOTTOM,
    5: PIL.Image.Transpose.TRANSPOSE,
    6: PIL.Image.Transpose.ROTATE_270,
    7: PIL.Image.Transpose.TRANSVERSE,
    8: PIL.Image.Transpose.ROTATE_90,
}


class Pixels(NamedTuple):
    """The first frame, upright, RGB (over white), and what the whole picture is."""

    picture: PIL.Image.Image
    size: tuple[int, int]
    taken_at: float | None


def read(path: str, side: int | None) -> Pixels:
    """Decode a file; the picture's longest side is at most `side`, `size` is that of the full picture.

    Damage raises one of DAMAGE, or an OSError without errno.
    """
    with PIL.Image.open(path, formats=FORMATS) as image:
        full = image.size
        _, taken = exif_of(image)
        if side is not None:
            image.draft("RGB", fitted(full, side))  # JPEG alone: decodes at a half, a quarter or an eighth
        image.load()
        if image.format == "TIFF":  # which Pillow turns upright while loading, forgetting the tag
            full = image.size
        orientation, _ = exif_of(image)
        picture = direct_colours(image)
        if side is not None:
            picture = reduced(picture, fitted(full, side))
    picture = over_white(picture) if picture.mode == "RGBA" else picture.convert("RGB")
    if orientation in UPRIGHT:
        picture = picture.transpose(UPRIGHT[orientation])
    return Pixels(picture, (full[1], full[0]) if orientation >= 5 else full, taken)


def fitted(size: tuple[int, int], side: int) -> tuple[int, int]:
    """`size` with its longest side at most `side`; no side becomes zero."""
    scale = min(1.0, side / max(size))
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def reduced(picture: PIL.Image.Image, size: tuple[int, int]) -> PIL.Image.Image:
    """The picture at a smaller size; whole-number reduction first, for speed."""
    if picture.size == size:
        return picture
    return picture.resize(size, PIL.Image.Resampling.BICUBIC, reducing_gap=2.0)


def exif_of(image: PIL.Image.Image) -> tuple[int, float | None]:
    """EXIF orientation (1 to 8; 1 where it makes no sense) and when taken. Damaged EXIF is no EXIF."""
    try:
        exif = image.getexif()
        orientation, tags = exif.get(ORIENTATION, 1), exif.get_ifd(EXIF_IFD)
    except (OSError, *DAMAGE):
        return 1, None
    return (orientation if orientation in UPRIGHT else 1), taken_at(tags)


def taken_at(tags: dict[int, Any]) -> float | None:
    """DateTimeOriginal in unix seconds; a camera that names no zone is taken to show UTC."""
    match = re.match(r"(\d{4}):(\d\d):(\d\d) (\d\d:\d\d:\d\d)", str(tags.get(TAKEN, "")))
    zone = re.match(r"[+-]\d\d:\d\d", str(tags.get(TAKEN_OFFSET, "")))
    if not match:
        return None
    text = "{}-{}-{}T{}".format(*match.groups()) + (zone.group() if zone else "+00:00")
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:  # 0000:00:00 00:00:00, as cameras without a clock write
        return None


def direct_colours(image: PIL.Image.Image) -> PIL.Image.Image:
    """Any mode as L, RGB or RGBA, whose values may be averaged."""
    if image.mode.startswith("I;16"):
        return image.point(lambda value: value / 256).convert("L")
    if image.mode in ("I", "F"):
        return eight_bits(image)
    if image.has_transparency_data:
        return image.convert("RGBA")
    return image if image.mode in ("L", "RGB") else image.convert("RGB")


def eight_bits(image: PIL.Image.Image) -> PIL.Image.Image:
    """One band of wide values as L: 16-bit ones by their range, any others by the range that occurs."""
    low, high = image.getextrema()
    assert not isinstance(low, tuple)  # there is one band
    assert not isinstance(high, tuple)
    if image.mode == "I" and low >= 0 and 255 < high < 2**16:
        low, high = 0, 2**16 - 1
    scale = 255 / (high - low) if high > low else 0.0
    return image.point(lambda value: value * scale - low * scale).convert("L")


def over_white(picture: PIL.Image.Image) -> PIL.Image.Image:
    """RGBA as RGB, white where it is transparent."""
    white = PIL.Image.new("RGB", picture.size, "white")
    white.paste(picture, mask=picture.getchannel("A"))
    return white


def jpeg(picture: PIL.Image.Image, quality: int) -> bytes:
    """The pixels as JPEG and nothing else: no EXIF, no profile, no comment."""
    picture.info.clear()  # Pillow writes comments again
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def write_thumbnail(picture: PIL.Image.Image, path: Path) -> None:
    """Write the thumbnail so that a reader finds the whole of it or nothing. It can be remade: no fsync."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.write_bytes(jpeg(reduced(picture, fitted(picture.size, THUMBNAIL_SIDE)), quality=80))
    temporary.replace(path)
