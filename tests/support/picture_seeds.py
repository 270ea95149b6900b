"""Small sound files of every format that is taken in, in several kinds each: what mutations start from."""

from collections.abc import Callable, Mapping
from functools import cache

import PIL.Image

from service.media.formats import register_formats
from tests.support import colour_profiles as profiles
from tests.support.pictures import corners, encoded, heic_corners

EXIF = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
XMP = (
    b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
    b'<r:Description xmlns:d="http://purl.org/dc/elements/1.1/"><d:subject><r:Bag><r:li>a word</r:li></r:Bag>'
    b"</d:subject></r:Description></r:RDF></x:xmpmeta>"
)


def frames() -> list[PIL.Image.Image]:
    """Further pictures of an animation."""
    return [corners().rotate(90 * turn) for turn in (1, 2)]


def _jpeg() -> list[bytes]:
    picture = corners()
    return [
        encoded(picture, "JPEG", exif=EXIF, comment=b"a comment", icc_profile=bytes(200)),
        encoded(picture, "JPEG", progressive=True, xmp=XMP),
        encoded(picture.convert("CMYK"), "JPEG"),
        encoded(picture.convert("CMYK"), "JPEG", icc_profile=profiles.press()),
        encoded(picture.convert("L"), "JPEG", subsampling=0, restart_marker_rows=1),
        encoded(picture, "MPO", save_all=True, append_images=frames()),
    ]


def _png() -> list[bytes]:
    picture = corners()
    return [
        encoded(picture, "PNG", exif=EXIF, icc_profile=bytes(200)),
        encoded(picture.convert("RGBA"), "PNG"),
        encoded(picture.convert("P"), "PNG", transparency=0),
        encoded(picture.convert("I;16"), "PNG"),
        encoded(picture.convert("1"), "PNG"),
        encoded(picture, "PNG", save_all=True, append_images=frames()),
    ]


def _webp() -> list[bytes]:
    picture = corners()
    return [
        encoded(picture, "WEBP", exif=EXIF, xmp=XMP),
        encoded(picture.convert("RGBA"), "WEBP", lossless=True),
        encoded(picture, "WEBP", save_all=True, append_images=frames()),
    ]


def _gif() -> list[bytes]:
    picture = corners().convert("P")
    return [
        encoded(picture, "GIF", comment=b"a comment"),
        encoded(picture, "GIF", interlace=1, transparency=0),
        encoded(picture, "GIF", save_all=True, append_images=[one.convert("P") for one in frames()], loop=0),
    ]


def _bmp() -> list[bytes]:
    return [encoded(corners().convert(mode), "BMP") for mode in ("RGB", "L", "1", "RGBA", "P")]


def _tiff() -> list[bytes]:
    picture = corners()
    packed = [encoded(picture, "TIFF", compression=one) for one in ("raw", "tiff_lzw", "tiff_adobe_deflate", "jpeg")]
    return [
        *packed,
        encoded(picture.convert("1"), "TIFF", compression="group4"),
        encoded(picture.convert("L"), "TIFF", compression="packbits"),
        encoded(picture.convert("I;16"), "TIFF"),
        encoded(picture, "TIFF", icc_profile=profiles.swapped()),
        encoded(picture, "TIFF", save_all=True, append_images=frames()),
    ]


def _avif() -> list[bytes]:
    picture = corners()
    return [
        encoded(picture, "AVIF", exif=EXIF, xmp=XMP),
        encoded(picture.convert("RGBA"), "AVIF", subsampling="4:4:4"),
        encoded(picture, "AVIF", save_all=True, append_images=frames()),
    ]


def _heic() -> list[bytes]:
    return [heic_corners(orientation) for orientation in (1, 4, 6)]


SEEDS: Mapping[str, Callable[[], list[bytes]]] = {
    "JPEG": _jpeg,
    "PNG": _png,
    "WEBP": _webp,
    "GIF": _gif,
    "BMP": _bmp,
    "TIFF": _tiff,
    "AVIF": _avif,
    "HEIF": _heic,
}


@cache
def sound_files() -> dict[str, list[bytes]]:
    """The files, by their format."""
    register_formats()
    return {kind: make() for kind, make in SEEDS.items()}
