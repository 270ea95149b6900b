"""The formats that pictures are read in, and the one way to open a file. Imports Pillow and, at its first use, libheif.

Nothing else is opened, whatever Pillow could read besides.
"""

from functools import cache
from pathlib import Path
from typing import IO

import PIL.Image
from PIL import AvifImagePlugin, TiffImagePlugin, WebPImagePlugin  # noqa: F401 - or Pillow tries all its plugins

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
    """The picture of a file, its header read. Pillow's errors where it is of no format that is read here."""
    register_formats()
    return PIL.Image.open(file, formats=FORMATS)
