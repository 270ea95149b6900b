"""Small pictures made for a test."""

import io
import struct
import zlib

import PIL.Image

from tests.support.project_files import ROOT

ORIENTATION = 0x0112
HEIC = ROOT / "tests" / "data" / "heic"
# How a camera stores an upright scene under each EXIF orientation: the inverse of what a viewer does.
STORED_AS = {
    2: PIL.Image.Transpose.FLIP_LEFT_RIGHT,
    3: PIL.Image.Transpose.ROTATE_180,
    4: PIL.Image.Transpose.FLIP_TOP_BOTTOM,
    5: PIL.Image.Transpose.TRANSPOSE,
    6: PIL.Image.Transpose.ROTATE_90,
    7: PIL.Image.Transpose.TRANSVERSE,
    8: PIL.Image.Transpose.ROTATE_270,
}
CORNERS = {"red": (0.1, 0.1), "lime": (0.9, 0.1), "blue": (0.1, 0.9), "white": (0.9, 0.9)}


def encoded(picture: PIL.Image.Image, kind: str, **options: object) -> bytes:
    """The picture as a file of that kind."""
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


def as_stored(scene: PIL.Image.Image, kind: str, orientation: int, **options: object) -> bytes:
    """An upright scene as a file of a camera that was held under that EXIF orientation."""
    exif = PIL.Image.Exif()
    exif[ORIENTATION] = orientation
    picture = scene.transpose(STORED_AS[orientation]) if orientation in STORED_AS else scene
    return encoded(picture, kind, exif=exif, **options)


def heic_corners(orientation: int = 1) -> bytes:
    """`corners` of 120 x 80 pixels as a HEIC file, stored as a camera held under that EXIF orientation stores it.

    The file says how to turn it twice, as phones write it: in boxes, which count, and in EXIF. EXIF holds a date, a
    sentence and GPS besides. Made with pillow-heif, whose encoder is no part of this project.
    """
    return (HEIC / f"orientation_{orientation}.heic").read_bytes()


def heic_with_profile() -> bytes:
    """The picture of `heic_corners`, bare, with the profile `swapped` of colour_profiles.py; made in that way too."""
    return (HEIC / "swapped.heic").read_bytes()


def claiming_size(content: bytes, width: int, height: int) -> bytes:
    """A HEIC or AVIF file that says to have that many pixels."""
    place = content.index(b"ispe") + 8
    return content[:place] + struct.pack(">II", width, height) + content[place + 8 :]


def corners(width: int = 60, height: int = 40) -> PIL.Image.Image:
    """A picture with a colour of its own in each corner."""
    picture = PIL.Image.new("RGB", (width, height))
    for colour, (x, y) in CORNERS.items():
        place = (round(x) * width // 2, round(y) * height // 2)
        picture.paste(colour, (*place, place[0] + width // 2, place[1] + height // 2))
    return picture


def seen_corners(picture: PIL.Image.Image) -> dict[str, str]:
    """The named colour nearest to each corner's, keyed by the colour that belongs there."""
    seen = {}
    for colour, (x, y) in CORNERS.items():
        pixel = picture.getpixel((int(x * picture.width), int(y * picture.height)))
        assert isinstance(pixel, tuple)
        seen[colour] = min(CORNERS, key=lambda name: _distance(name, pixel))
    return seen


def _distance(name: str, pixel: tuple[int, ...]) -> int:
    rgb = PIL.Image.new("RGB", (1, 1), name).getpixel((0, 0))
    assert isinstance(rgb, tuple)
    return sum((a - b) ** 2 for a, b in zip(rgb, pixel, strict=True))


def png_chunk(name: bytes, body: bytes) -> bytes:
    """One chunk of a PNG."""
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def huge_png(width: int, height: int, rows: int | None = None) -> bytes:
    """A black one-bit PNG, made without holding its pixels; with `rows` it ends after so many of them."""
    packer, row = zlib.compressobj(9), bytes(1 + (width + 7) // 8)
    packed = b"".join(packer.compress(row) for _ in range(height if rows is None else rows)) + packer.flush()
    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    chunks = {b"IHDR": header, b"IDAT": packed, b"IEND": b""}
    return b"\x89PNG\r\n\x1a\n" + b"".join(png_chunk(name, body) for name, body in chunks.items())
