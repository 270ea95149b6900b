"""Picture files without their metadata: GPS, maker notes, comments, previews, appended files.

The pixels stay bit for bit: parts of the file are left out, nothing is encoded again. The parts that stay are listed
here, so an unknown kind of part is left out. The orientation stays, alone in an EXIF block of its own.
"""

import io
import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import PIL.Image

from service.media import pixels
from service.media.decode_pool import DecodePool
from service.media.pixels import MEDIA_TYPES

JPEG_COLOUR = ((0xE0, b"JFIF\0"), (0xE2, b"ICC_PROFILE\0"), (0xEE, b"Adobe"))
# A marker inside or after compressed data; FF 00 is a data byte, FF D0 to D7 are restarts.
JPEG_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")
PNG_KEPT = frozenset(
    b"IHDR PLTE IDAT IEND tRNS gAMA cHRM sRGB iCCP sBIT bKGD pHYs cICP mDCV cLLI acTL fcTL fdAT".split()
)
WEBP_KEPT = frozenset((b"VP8 ", b"VP8L", b"VP8X", b"ALPH", b"ANIM", b"ANMF", b"ICCP"))
WEBP_XMP, WEBP_EXIF = 0x04, 0x08  # flags of VP8X
GIF_LOOPS = (b"NETSCAPE2.0", b"ANIMEXTS1.0")


def read_without_metadata(path: Path, extension: str, pool: DecodePool) -> tuple[bytes, str]:
    """The bytes of a picture to show, and their media type. Blocks. DecodeFailed, FileNotFoundError."""
    content = path.read_bytes()
    try:
        return strip_metadata(content, extension), MEDIA_TYPES[extension]
    except (ValueError, IndexError, struct.error):  # TIFF, or parts that do not follow each other as they should
        return pool.render_jpeg(path), MEDIA_TYPES["jpg"]


def strip_metadata(content: bytes, extension: str) -> bytes:
    """The file without metadata; ValueError, IndexError or struct.error where its structure is odd."""
    match extension:
        case "jpg":
            return _jpeg(content)
        case "png":
            return _png(content)
        case "webp":
            return _webp(content)
        case "gif":
            return _gif(content)
        case "bmp":
            return content  # the format holds no metadata
    raise ValueError(f"metadata of {extension} files cannot be left out without encoding them again")


def _orientation_exif(content: bytes) -> bytes:
    """A TIFF block with the file's orientation alone; empty where the picture is stored upright."""
    with PIL.Image.open(io.BytesIO(content), formats=pixels.FORMATS) as image:
        orientation, _ = pixels.read_exif(image)
    if orientation == 1:
        return b""
    # Big-endian header, one entry: tag, SHORT, one value, padded; no further directory.
    return struct.pack(">2sHIHHHIHHI", b"MM", 42, 8, 1, pixels.ORIENTATION, 3, 1, orientation, 0, 0)


def _jpeg(content: bytes) -> bytes:
    if not content.startswith(b"\xff\xd8"):
        raise ValueError("no JPEG")
    exif = _orientation_exif(content)
    parts = [content[:2]]
    for kind, part in _jpeg_parts(content):
        # JFIF wants to be first; the orientation comes before whatever else there is.
        if exif and kind != 0xE0:
            parts.append(b"\xff\xe1" + struct.pack(">H", 8 + len(exif)) + b"Exif\0\0" + exif)
            exif = b""
        is_metadata = 0xE0 <= kind <= 0xEF or kind == 0xFE
        if not is_metadata or any(kind == k and part.startswith(name, 4) for k, name in JPEG_COLOUR):
            parts.append(part)
    return b"".join(parts)


def _jpeg_parts(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Marker and bytes of every segment up to the end of the first picture, scans with their data."""
    offset = 2
    while True:
        while content[offset] == content[offset + 1] == 0xFF:  # fill bytes
            offset += 1
        if content[offset] != 0xFF:
            raise ValueError("a segment does not begin where the last one ends")
        kind = content[offset + 1]
        if kind == 0xD9:
            yield kind, content[offset : offset + 2]
            return
        (length,) = struct.unpack_from(">H", content, offset + 2)
        end = offset + 2 + length
        if kind == 0xDA:
            marker = JPEG_MARKER.search(content, end)
            if marker is None:
                raise ValueError("the picture has no end")
            end = marker.start()
        yield kind, content[offset:end]
        offset = end


def _png(content: bytes) -> bytes:
    exif = _orientation_exif(content)
    parts, offset, kind = [content[:8]], 8, b""
    while kind != b"IEND":
        length, kind = struct.unpack_from(">I4s", content, offset)
        end = offset + 12 + length
        if kind == b"IDAT" and exif:
            body = b"eXIf" + exif
            parts.append(struct.pack(">I", len(exif)) + body + struct.pack(">I", zlib.crc32(body)))
            exif = b""
        if kind in PNG_KEPT:
            parts.append(content[offset:end])
        offset = end
    return b"".join(parts)


def _webp(content: bytes) -> bytes:
    exif = _orientation_exif(content)
    _, size, _ = struct.unpack_from("<4sI4s", content)
    parts, offset = [], 12
    while offset < 8 + size:
        kind, length = struct.unpack_from("<4sI", content, offset)
        end = offset + 8 + length + length % 2
        if kind == b"VP8X":
            flags = content[offset + 8] & ~(WEBP_XMP | WEBP_EXIF) | (WEBP_EXIF if exif else 0)
            parts.append(content[offset : offset + 8] + bytes([flags]) + content[offset + 9 : end])
        elif kind in WEBP_KEPT:
            parts.append(content[offset:end])
        offset = end
    if exif:
        parts.append(b"EXIF" + struct.pack("<I", len(exif)) + exif)
    body = b"WEBP" + b"".join(parts)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def _gif(content: bytes) -> bytes:
    offset = 13 + _gif_palette(content[10])
    parts = [content[:offset]]
    while content[offset] != 0x3B:
        start, kind = offset, content[offset]
        if kind == 0x21:
            offset = _gif_blocks_end(content, offset + 2)
        elif kind == 0x2C:
            offset = _gif_blocks_end(content, offset + 11 + _gif_palette(content[offset + 9]))
        else:
            raise ValueError("an unknown kind of block")
        label = content[start + 1]
        is_metadata = kind == 0x21 and (
            label == 0xFE or (label == 0xFF and content[start + 3 : start + 14] not in GIF_LOOPS)
        )
        if not is_metadata:
            parts.append(content[start:offset])
    return b"".join([*parts, b"\x3b"])


def _gif_palette(flags: int) -> int:
    """Size in bytes of the colour table that a descriptor announces."""
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _gif_blocks_end(content: bytes, offset: int) -> int:
    while length := content[offset]:
        offset += 1 + length
    return offset + 1
