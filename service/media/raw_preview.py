"""The preview that a camera embeds in its RAW files. The sensor data itself is never read.

Needs the extra `raw` (rawpy, with LibRaw). Runs in decode_worker; rawpy is loaded with the first RAW file, when the
process has given up all rights except reading.
"""

import io
import os
import struct
from datetime import datetime
from pathlib import Path
from typing import Any

import PIL.Image

from service.errors import UnreadablePicture
from service.media.file_parts import check_parts

RAW_FORMAT, RAW_EXTENSION = "RAW", "raw"
SHORTEST_SIDE = 400  # pixels of the longer side; smaller previews are for the camera's menu, of no use to a detector
RAW_SIGNATURES = (  # offset, bytes; RAW files of other manufacturers are TIFF files
    (4, b"ftypcrx"),
    (0, b"FUJIFILMCCD-RAW"),
    (0, b"IIRO"),
    (0, b"IIRS"),
    (0, b"MMOR"),
    (0, b"IIU\0"),
    (0, b"FOVb"),
    (0, b"\0MRM"),
    (8, b"CR\x02"),
)
TIFF_HEADS = (b"II*\0", b"MM\0*")
SUBFILE_TYPE, PHOTOMETRIC, MAKE, DNG_VERSION = 0x00FE, 0x0106, 0x010F, 0xC612
SENSOR_DATA = (32803, 34892)  # photometric interpretations: a colour mosaic, or values linear in light
ORIENTATION, EXIF_IFD, DATE_TIME_ORIGINAL = 0x0112, 0x8769, 0x9003
ORIENTATION_OF_FLIP = {3: 3, 5: 8, 6: 6}  # LibRaw's code of a rotation -> EXIF's
ADVICE = "This is a camera's RAW file: export it as JPEG"
WITHOUT_RAWPY = f"{ADVICE}, or install the extra `raw` where the service runs (pip install rawpy)."


def is_raw(path: Path) -> bool:
    """Whether a file is a camera's RAW file, by its first bytes or its TIFF tags."""
    with path.open("rb") as file:
        head = file.read(16)
        if any(head.startswith(signature, offset) for offset, signature in RAW_SIGNATURES):
            return True
        if not head.startswith(TIFF_HEADS):
            return False
        file.seek(0)
        tags = PIL.Image.Exif()
        try:
            tags.load_from_fp(file)
            is_reduced = bool(int(tags.get(SUBFILE_TYPE, 0)) & 1)
            is_sensor_data = tags.get(PHOTOMETRIC) in SENSOR_DATA
        except (OSError, SyntaxError, ValueError, LookupError, TypeError, ArithmeticError, struct.error, Warning):
            return False  # Pillow reports the damage later
        return DNG_VERSION in tags or (MAKE in tags and (is_reduced or is_sensor_data))


def open_preview(path: Path) -> PIL.Image.Image:
    """The largest preview in the RAW file, with format RAW, and with orientation and date as in EXIF.

    UnreadablePicture, with a message, if there is no usable one; ValueError for a damaged file.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy needs no BLAS threads here
    try:
        import rawpy  # noqa: PLC0415 - an extra, and slow to load where there are no RAW files
    except ImportError:
        raise UnreadablePicture(WITHOUT_RAWPY) from None
    try:
        with rawpy.imread(str(path)) as raw:
            thumbnail = raw.extract_thumb()
            flip, taken = raw.sizes.flip, raw.other.timestamp
    except (rawpy.LibRawNoThumbnailError, rawpy.LibRawUnsupportedThumbnailError):
        raise UnreadablePicture(f"{ADVICE}, as it holds no picture besides the sensor's.") from None
    except rawpy.LibRawFileUnsupportedError:
        raise UnreadablePicture(f"{ADVICE}, as this camera's are not known here.") from None
    except rawpy.LibRawError as error:
        raise ValueError(str(error)) from None
    return _preview(thumbnail.data, flip, taken)


def _preview(data: Any, flip: int, taken: datetime) -> PIL.Image.Image:
    """The picture from a preview's JPEG bytes, or its pixels. `taken` is the camera's time; 1970 means unknown."""
    image: PIL.Image.Image
    if isinstance(data, bytes):
        check_parts(io.BytesIO(data))
        image = PIL.Image.open(io.BytesIO(data), formats=("JPEG",))
    else:
        image = PIL.Image.fromarray(data)
    if max(image.size) < SHORTEST_SIDE:
        width, height = image.size
        raise UnreadablePicture(f"{ADVICE}, as the picture that it holds has only {width} x {height} pixels.")
    exif = image.getexif()
    tags = exif.get_ifd(EXIF_IFD)
    if ORIENTATION not in exif:  # most previews are in sensor orientation without saying so
        exif[ORIENTATION] = ORIENTATION_OF_FLIP.get(flip, 1)
    if DATE_TIME_ORIGINAL not in tags and taken.year > 1970:
        tags[DATE_TIME_ORIGINAL] = taken.strftime("%Y:%m:%d %H:%M:%S")
    image.format = RAW_FORMAT
    return image
