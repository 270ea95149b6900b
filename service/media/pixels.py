"""A picture file as upright RGB pixels, as a JPEG and as a thumbnail. Imports no more than dates.py, formats.py and
descriptions.py; runs in decode_worker.
"""

import io
import struct
import zlib
from typing import Any, NamedTuple

import PIL.Image

from service.media.dates import exif_date, xmp_date
from service.media.descriptions import NOTHING, Description, read_description, xmp_root
from service.media.formats import TURNED_WHILE_LOADING, open_picture

DETECTOR_SIDE = 1333  # pixels of the longest side given to a detector
THUMBNAIL_SIDE = 320

# Pillow's decoders raise these on damaged files, besides an OSError without a number.
DECODE_ERRORS = (
    SyntaxError,
    ValueError,
    EOFError,
    LookupError,
    TypeError,
    ArithmeticError,
    RuntimeError,  # of libheif
    struct.error,
    zlib.error,
    PIL.Image.DecompressionBombError,
    PIL.Image.DecompressionBombWarning,
)

ORIENTATION, EXIF_IFD = 0x0112, 0x8769
GPS_IFD, GPS_LATITUDE_REF, GPS_LATITUDE, GPS_LONGITUDE_REF, GPS_LONGITUDE = 0x8825, 1, 2, 3, 4
TRANSPOSE_OF = {  # EXIF orientation -> what turns the picture upright
    2: PIL.Image.Transpose.FLIP_LEFT_RIGHT,
    3: PIL.Image.Transpose.ROTATE_180,
    4: PIL.Image.Transpose.FLIP_TOP_BOTTOM,
    5: PIL.Image.Transpose.TRANSPOSE,
    6: PIL.Image.Transpose.ROTATE_270,
    7: PIL.Image.Transpose.TRANSVERSE,
    8: PIL.Image.Transpose.ROTATE_90,
}


class DecodedFile(NamedTuple):
    """The first frame of a picture file."""

    picture: PIL.Image.Image
    """Upright RGB; white where the file is transparent."""
    size: tuple[int, int]
    """Width and height of the upright picture at full size."""
    taken_at: float | None
    """Unix seconds; None where the file does not say."""
    orientation: int
    """EXIF orientation of the file, 1 to 8; 1 where the picture is turned while it is loaded."""
    description: Description
    """Caption and keywords that the file holds."""
    position: tuple[float, float] | None = None
    """Latitude and longitude in degrees, where they were asked for and the file says them."""


def decode_file(path: str, side: int | None, with_position: bool = False) -> DecodedFile:
    """Decode a file; the longest side of the pixels is at most `side`, where it is given.

    Where it was taken is looked at only `with_position`.

    A damaged file raises one of DECODE_ERRORS, or an OSError without errno.
    """
    with open_picture(path) as image:
        full = image.size
        _, taken = read_exif(image)
        if side is not None:
            image.draft("RGB", fit_size(full, side))  # JPEG alone: decodes at a half, a quarter or an eighth
        image.load()
        if image.format in TURNED_WHILE_LOADING:
            full = image.size
        orientation, found_late = read_exif(image)  # PNG may hold EXIF behind its pixels
        taken = found_late if taken is None else taken
        taken = xmp_date_of(image) if taken is None else taken
        description = description_of(image)
        position = read_position(image) if with_position else None
        picture = to_direct_colours(image)
        if side is not None:
            picture = downscale(picture, fit_size(full, side))
    picture = composite_on_white(picture) if picture.mode == "RGBA" else picture.convert("RGB")
    if orientation in TRANSPOSE_OF:
        picture = picture.transpose(TRANSPOSE_OF[orientation])
    size = (full[1], full[0]) if orientation >= 5 else full
    return DecodedFile(picture, size, taken, orientation, description, position)


def fit_size(size: tuple[int, int], side: int) -> tuple[int, int]:
    """`size` with its longest side at most `side`; no side becomes zero."""
    scale = min(1.0, side / max(size))
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def downscale(picture: PIL.Image.Image, size: tuple[int, int]) -> PIL.Image.Image:
    """The picture at a smaller size: reduced by a whole number first, for speed, then resampled."""
    if picture.size == size:
        return picture
    return picture.resize(size, PIL.Image.Resampling.BICUBIC, reducing_gap=2.0)


def read_exif(image: PIL.Image.Image) -> tuple[int, float | None]:
    """EXIF orientation, 1 to 8 (1, upright, where it makes no sense), and when the picture was taken.

    Damaged EXIF counts as none.
    """
    try:
        exif = image.getexif()
        orientation, tags = exif.get(ORIENTATION, 1), exif.get_ifd(EXIF_IFD)
    except (OSError, *DECODE_ERRORS):
        return 1, None
    return (orientation if orientation in TRANSPOSE_OF else 1), exif_date(tags)


def read_position(image: PIL.Image.Image) -> tuple[float, float] | None:
    """Latitude and longitude of a loaded picture in degrees; None where EXIF does not say them, or makes no sense."""
    try:
        tags = image.getexif().get_ifd(GPS_IFD)
        latitude, longitude = _degrees(tags[GPS_LATITUDE]), _degrees(tags[GPS_LONGITUDE])
        south, west = tags.get(GPS_LATITUDE_REF) == "S", tags.get(GPS_LONGITUDE_REF) == "W"
    except (OSError, *DECODE_ERRORS):
        return None
    is_sound = 0 <= latitude <= 90 and 0 <= longitude <= 180  # and not NaN, of a fraction by zero
    if not is_sound or latitude == longitude == 0:  # as receivers without a fix write
        return None
    return (-latitude if south else latitude), (-longitude if west else longitude)


def _degrees(parts: Any) -> float:
    degrees, minutes, seconds = (float(part) for part in parts)
    return degrees + minutes / 60 + seconds / 3600


def xmp_date_of(image: PIL.Image.Image) -> float | None:
    """The date that XMP says of a loaded picture; None where the metadata is damaged."""
    try:
        return xmp_date(xmp_root(image.info.get("xmp")))
    except (OSError, *DECODE_ERRORS):
        return None


def description_of(image: PIL.Image.Image) -> Description:
    """Caption and keywords of a loaded picture; none where the metadata is damaged."""
    try:
        return read_description(image)
    except (OSError, *DECODE_ERRORS):
        return NOTHING


def to_direct_colours(image: PIL.Image.Image) -> PIL.Image.Image:
    """The image as L, RGB or RGBA, whatever its mode: values that may be averaged, unlike those of a palette."""
    if image.mode.startswith("I;16"):
        return image.point(lambda value: value / 256).convert("L")
    if image.mode in ("I", "F"):
        return to_eight_bits(image)
    if image.has_transparency_data:
        return image.convert("RGBA")
    return image if image.mode in ("L", "RGB") else image.convert("RGB")


def to_eight_bits(image: PIL.Image.Image) -> PIL.Image.Image:
    """A single band of 16 or 32 bits as L: scaled by the range of 16-bit values, or else by the range that occurs."""
    low, high = image.getextrema()
    assert not isinstance(low, tuple)  # there is one band
    assert not isinstance(high, tuple)
    if image.mode == "I" and low >= 0 and 255 < high < 2**16:
        low, high = 0, 2**16 - 1
    scale = 255 / (high - low) if high > low else 0.0
    return image.point(lambda value: value * scale - low * scale).convert("L")


def composite_on_white(picture: PIL.Image.Image) -> PIL.Image.Image:
    """An RGBA picture as RGB, white where it is transparent."""
    white = PIL.Image.new("RGB", picture.size, "white")
    white.paste(picture, mask=picture.getchannel("A"))
    return white


def encode_jpeg(picture: PIL.Image.Image, quality: int) -> bytes:
    """A JPEG of the pixels alone: without EXIF, colour profile or comment."""
    picture.info.clear()  # Pillow writes comments again
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def thumbnail_jpeg(picture: PIL.Image.Image) -> bytes:
    """A JPEG of the picture with at most THUMBNAIL_SIDE pixels a side."""
    return encode_jpeg(downscale(picture, fit_size(picture.size, THUMBNAIL_SIDE)), quality=80)
