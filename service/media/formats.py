"""The formats that pictures are read in, and the one way to open a file.

Nothing else is opened, whatever Pillow could read besides. libheif and LibRaw are imported at their first use.
"""

from functools import cache
from pathlib import Path
from typing import IO

import PIL.Image
from PIL import AvifImagePlugin, TiffImagePlugin, WebPImagePlugin  # noqa: F401 - or Pillow tries all its plugins

from service.media.raw_preview import RAW_EXTENSION, is_raw, open_preview

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "TIFF", "GIF", "AVIF", "HEIF")
TURNED_WHILE_LOADING = ("TIFF", "HEIF")  # Pillow or libheif turns these upright, and drops the orientation
MEDIA_TYPES = {
    "jpg": "image/jpeg",
    "png": "image/png",
    "webp": "image/webp",
    "bmp": "image/bmp",
    "tif": "image/tiff",
    "gif": "image/gif",
    "avif": "image/avif",
    "heic": "image/heic",
    RAW_EXTENSION: "application/octet-stream",
}


@cache
def register_formats() -> None:
    """Have Pillow know every format of FORMATS, decoded in one thread. Takes a tenth of a second, once."""
    from pi_heif import register_heif_opener  # noqa: PLC0415 - loads a decoder, which processes that decode need alone

    PIL.Image.preinit()
    # Decoding is limited in processes; threads inside one would only take memory.
    AvifImagePlugin.DEFAULT_MAX_THREADS = 1
    register_heif_opener(thumbnails=False, depth_images=False, aux_images=False, decode_threads=1)


def open_picture(file: str | Path | IO[bytes]) -> PIL.Image.Image:
    """The picture of a file, its header read; of a camera's RAW file, whose path is given, the one that it holds.

    Pillow's errors where it is of no format that is read here, UnreadablePicture for a RAW file that cannot be used.
    """
    register_formats()
    if isinstance(file, str | Path) and is_raw(Path(file)):
        return open_preview(Path(file))
    return PIL.Image.open(file, formats=FORMATS)
