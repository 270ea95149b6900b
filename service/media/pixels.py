"""A picture file as upright sRGB pixels, as a JPEG and as a thumbnail. Runs in decode_worker, and so imports little."""

import io
import struct
import zlib
from typing import Any, NamedTuple

import PIL.Image

from models.pictures import ORIENTATION, TRANSPOSE_OF, downscale, size_within, upright_rgb
from service.media.dates import exif_date, xmp_date
from service.media.descriptions import NOTHING, Description, read_description, xmp_root
from service.media.formats import TURNED_WHILE_LOADING, open_picture

THUMBNAIL_SIDE = 320

# Pillow's decoders raise these on damaged files, besides an OSError without a number.
DECODE_ERRORS = (
    SyntaxError,
    ValueError,
    EOFError,
    LookupError,
    TypeError,
    ArithmeticError,
    RuntimeError,  # from libheif
    struct.error,
    zlib.error,
    PIL.Image.DecompressionBombError,
    PIL.Image.DecompressionBombWarning,
)

EXIF_IFD = 0x8769
GPS_IFD, GPS_LATITUDE_REF, GPS_LATITUDE, GPS_LONGITUDE_REF, GPS_LONGITUDE = 0x8825, 1, 2, 3, 4


class DecodedFile(NamedTuple):
    """The first frame of a picture file."""

    picture: PIL.Image.Image
    """Upright sRGB; white where the file is transparent."""
    size: tuple[int, int]
    """Width and height of the upright picture at full size."""
    taken_at: float | None
    """Unix seconds; None if unknown."""
    orientation: int
    """EXIF orientation of the file, 1 to 8; 1 where loading already turns the picture."""
    description: Description
    """Caption and keywords in the file."""
    coordinates: tuple[float, float] | None = None
    """Latitude and longitude in degrees, if requested and known."""
    large: PIL.Image.Image | None = None
    """The picture with sides of at most `large_side` pixels, if requested."""


def decode_file(
    path: str, side: int | None, with_coordinates: bool = False, large_side: int | None = None
) -> DecodedFile:
    """Decode a file; the longest side of the pixels is at most `side`, if given.

    Coordinates are read only `with_coordinates`. With `large_side` the file is decoded once for both pictures.

    A damaged file raises one of DECODE_ERRORS, or an OSError without errno.
    """
    with open_picture(path) as image:
        full = image.size
        _, taken = read_exif(image)
        if side is not None:
            # Only for JPEG: decodes at a half, a quarter or an eighth of the size.
            image.draft("RGB", size_within(full, max(side, large_side or 0)))
        image.load()
        if image.format in TURNED_WHILE_LOADING:
            full = image.size
        orientation, late_taken = read_exif(image)  # in a PNG, EXIF may follow the pixels
        taken = late_taken if taken is None else taken
        taken = xmp_date_of(image) if taken is None else taken
        description = description_of(image)
        coordinates = read_coordinates(image) if with_coordinates else None
        picture = upright_rgb(image, orientation, None if side is None else size_within(full, side))
        large = None if large_side is None else upright_rgb(image, orientation, size_within(full, large_side))
    size = (full[1], full[0]) if orientation >= 5 else full
    return DecodedFile(picture, size, taken, orientation, description, coordinates, large)


def is_animated(path: str) -> bool:
    """Whether a file has several frames; True also where this cannot be determined."""
    try:
        with open_picture(path) as image:
            return bool(getattr(image, "is_animated", False))
    except DECODE_ERRORS:
        return True


def read_exif(image: PIL.Image.Image) -> tuple[int, float | None]:
    """EXIF orientation, 1 to 8 (1, upright, if invalid), and the time when the picture was taken.

    Damaged EXIF is ignored.
    """
    try:
        exif = image.getexif()
        orientation, tags = exif.get(ORIENTATION, 1), exif.get_ifd(EXIF_IFD)
    except (OSError, *DECODE_ERRORS):
        return 1, None
    return (orientation if orientation in TRANSPOSE_OF else 1), exif_date(tags)


def read_coordinates(image: PIL.Image.Image) -> tuple[float, float] | None:
    """Latitude and longitude of a loaded picture in degrees; None if EXIF has none, or they are invalid."""
    try:
        tags = image.getexif().get_ifd(GPS_IFD)
        latitude, longitude = _degrees(tags[GPS_LATITUDE]), _degrees(tags[GPS_LONGITUDE])
        south, west = tags.get(GPS_LATITUDE_REF) == "S", tags.get(GPS_LONGITUDE_REF) == "W"
    except (OSError, *DECODE_ERRORS):
        return None
    is_sound = 0 <= latitude <= 90 and 0 <= longitude <= 180  # false for NaN, from a zero denominator
    if not is_sound or latitude == longitude == 0:  # as written by receivers without a fix
        return None
    return (-latitude if south else latitude), (-longitude if west else longitude)


def _degrees(parts: Any) -> float:
    degrees, minutes, seconds = (float(part) for part in parts)
    return degrees + minutes / 60 + seconds / 3600


def xmp_date_of(image: PIL.Image.Image) -> float | None:
    """The XMP date of a loaded picture; None where the metadata is damaged."""
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


def encode_jpeg(picture: PIL.Image.Image, quality: int) -> bytes:
    """A JPEG with nothing but the pixels: no EXIF, colour profile or comment."""
    picture.info.clear()  # otherwise Pillow would write its comment
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def thumbnail_jpeg(picture: PIL.Image.Image) -> bytes:
    """A JPEG of the picture with sides of at most THUMBNAIL_SIDE pixels."""
    return encode_jpeg(downscale(picture, size_within(picture.size, THUMBNAIL_SIDE)), quality=80)
