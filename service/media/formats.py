"""The formats in which pictures are read, and the only function that opens a file.

Other formats that Pillow could read are not opened. libheif and LibRaw are imported at their first use.
"""

from functools import cache
from pathlib import Path
from typing import IO

import PIL.Image
from PIL import AvifImagePlugin, TiffImagePlugin, WebPImagePlugin  # noqa: F401 - otherwise Pillow tries all its plugins

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
    """Register all of FORMATS with Pillow, decoded in a single thread. Takes a tenth of a second, once."""
    from pi_heif import register_heif_opener  # noqa: PLC0415 - loads a decoder, which only decoding processes need

    PIL.Image.preinit()
    # Decoding is parallel across processes; threads within one would only take memory.
    AvifImagePlugin.DEFAULT_MAX_THREADS = 1
    register_heif_opener(thumbnails=False, depth_images=False, aux_images=False, decode_threads=1)


def open_picture(file: str | Path | IO[bytes]) -> PIL.Image.Image:
    """The picture of a file, with its header read; for a camera's RAW file, given as a path, its embedded preview.

    Raises Pillow's errors for a format that is not read here, UnreadablePicture for an unusable RAW file.
    """
    register_formats()
    if isinstance(file, str | Path) and is_raw(Path(file)):
        return open_preview(Path(file))
    return PIL.Image.open(file, formats=FORMATS)
