"""Picture files without their metadata: GPS, maker notes, comments, previews, appended files.

The pixels stay bit for bit: parts of the file are dropped, nothing is re-encoded. The allowed parts are listed here,
with their sizes if they could carry extra data, so that unknown parts are dropped. Only the orientation is kept, in an
EXIF block of its own.
"""

import io
import re
import struct
import zlib
from collections.abc import Iterator

from models.pictures import ORIENTATION
from service.media import pixels
from service.media.formats import open_picture
from service.media.strip_bmp import strip_bmp

# Segments of a JPEG that decoding needs: frames, tables, restarts, lines, scans, the end.
JPEG_PIXELS = {*range(0xC0, 0xD0), 0xD9, 0xDA, 0xDB, 0xDC, 0xDD} - {0xC8}
# Marker, name and number of bytes of segments that define colours; None: all bytes.
JPEG_COLOUR = ((0xE0, b"JFIF\0", 12), (0xE2, b"ICC_PROFILE\0", None), (0xEE, b"Adobe", 12))
# A marker that ends compressed data; FF 00 is a data byte, FF D0 to D7 are restarts.
JPEG_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")
# Chunks of a PNG and their largest sizes; None: any.
PNG_KEPT: dict[bytes, int | None] = {
    b"IHDR": 13,
    b"PLTE": 768,
    b"IDAT": None,
    b"IEND": 0,
    b"tRNS": 256,
    b"gAMA": 4,
    b"cHRM": 32,
    b"sRGB": 1,
    b"iCCP": None,
    b"sBIT": 4,
    b"bKGD": 6,
    b"pHYs": 9,
    b"cICP": 4,
    b"mDCV": 24,
    b"cLLI": 8,
    b"acTL": 8,
    b"fcTL": 26,
    b"fdAT": None,
}
WEBP_KEPT = frozenset((b"VP8 ", b"VP8L", b"VP8X", b"ALPH", b"ANIM", b"ANMF", b"ICCP"))
WEBP_FRAME_KEPT = frozenset((b"VP8 ", b"VP8L", b"ALPH"))
WEBP_XMP, WEBP_EXIF = 0x04, 0x08  # flags of VP8X
GIF_LOOPS = (b"NETSCAPE2.0", b"ANIMEXTS1.0")


def strip_metadata(content: bytes, extension: str, orientation: int | None = None) -> bytes:
    """The file without metadata; ValueError, IndexError or struct.error where its structure is irregular.

    If `orientation` is not given, it is read from the file, perhaps by decoding it.
    """
    exif = b"" if extension in ("gif", "bmp") else _orientation_exif(content, orientation)
    match extension:
        case "jpg":
            return _jpeg(content, exif)
        case "png":
            return _png(content, exif)
        case "webp":
            return _webp(content, exif)
        case "gif":
            return _gif(content)
        case "bmp":
            return strip_bmp(content)
    raise ValueError(f"metadata of {extension} files cannot be left out without encoding them again")


def _orientation_exif(content: bytes, orientation: int | None) -> bytes:
    """A TIFF block with nothing but the orientation; empty if the picture is stored upright."""
    if orientation is None:
        with open_picture(io.BytesIO(content)) as image:
            orientation, _ = pixels.read_exif(image)
    if orientation == 1:
        return b""
    # Big-endian header, one entry: tag, SHORT, one value, padded; no further directory.
    return struct.pack(">2sHIHHHIHHI", b"MM", 42, 8, 1, ORIENTATION, 3, 1, orientation, 0, 0)


def _jpeg(content: bytes, exif: bytes) -> bytes:
    if not content.startswith(b"\xff\xd8"):
        raise ValueError("no JPEG")
    parts = [content[:2]]
    for kind, part in _jpeg_parts(content):
        # JFIF must come first; the orientation comes before everything else.
        if exif and kind != 0xE0:
            parts.append(b"\xff\xe1" + struct.pack(">H", 8 + len(exif)) + b"Exif\0\0" + exif)
            exif = b""
        parts.append(part if kind in JPEG_PIXELS else _jpeg_colour(kind, part))
    return b"".join(parts)


def _jpeg_colour(kind: int, part: bytes) -> bytes:
    """The segment without extra data; empty if it does not define colours."""
    for marker, name, size in JPEG_COLOUR:
        if kind == marker and part.startswith(name, 4):
            if size is None or len(part) < 4 + size:
                return part
            # A JFIF segment may contain a preview, whose size is in its last two bytes.
            body = part[4 : 4 + size] + (b"\0\0" if kind == 0xE0 else b"")
            return part[:2] + struct.pack(">H", 2 + len(body)) + body
    return b""


def _jpeg_parts(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Marker and bytes of each segment up to the end of the first picture, scans with their data."""
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


def _png(content: bytes, exif: bytes) -> bytes:
    parts, offset, kind = [content[:8]], 8, b""
    while kind != b"IEND":
        length, kind = struct.unpack_from(">I4s", content, offset)
        end = offset + 12 + length
        if kind == b"IDAT" and exif:
            parts.append(_png_chunk(b"eXIf", exif))
            exif = b""
        if kind == b"IEND":
            parts.append(_png_chunk(kind, b""))
        elif kind == b"iCCP":  # its name is free text
            _, _, profile = content[offset + 8 : end - 4].partition(b"\0")
            parts.append(_png_chunk(kind, b"ICC profile\0" + profile))
        elif kind in PNG_KEPT and (most := PNG_KEPT[kind]) is not None and length > most:
            if kind in (b"IHDR", b"PLTE", b"tRNS", b"acTL", b"fcTL"):
                raise ValueError("a chunk that the pixels need is too long")
        elif kind in PNG_KEPT:
            parts.append(content[offset:end])
        offset = end
    return b"".join(parts)


def _png_chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def _webp(content: bytes, exif: bytes) -> bytes:
    _, size, _ = struct.unpack_from("<4sI4s", content)
    parts = []
    for kind, body in _webp_chunks(content, 12, 8 + size):
        if kind == b"VP8X":
            flags = body[0] & ~(WEBP_XMP | WEBP_EXIF) | (WEBP_EXIF if exif else 0)
            parts.append(_webp_chunk(kind, bytes([flags]) + body[1:10]))
        elif kind == b"ANMF":
            frame = [_webp_chunk(*chunk) for chunk in _webp_chunks(body, 16, len(body)) if chunk[0] in WEBP_FRAME_KEPT]
            parts.append(_webp_chunk(kind, body[:16] + b"".join(frame)))
        elif kind in WEBP_KEPT:
            parts.append(_webp_chunk(kind, body))
    if exif:
        parts.append(_webp_chunk(b"EXIF", exif))
    joined = b"WEBP" + b"".join(parts)
    return b"RIFF" + struct.pack("<I", len(joined)) + joined


def _webp_chunks(content: bytes, offset: int, stop: int) -> Iterator[tuple[bytes, bytes]]:
    """Name and body of each chunk."""
    while offset < stop:
        kind, length = struct.unpack_from("<4sI", content, offset)
        if offset + 8 + length > len(content):
            raise ValueError("a chunk is longer than the file")
        yield kind, content[offset + 8 : offset + 8 + length]
        offset += 8 + length + length % 2


def _webp_chunk(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("<I", len(body)) + body + b"\0" * (len(body) % 2)


def _gif(content: bytes) -> bytes:
    offset = 13 + _gif_palette(content[10])
    parts = [content[:offset]]
    while content[offset] != 0x3B:
        start, kind = offset, content[offset]
        if kind == 0x21:
            offset = _gif_blocks_end(content, offset + 2)
            parts.append(_gif_extension(content[start:offset]))
        elif kind == 0x2C:
            offset = _gif_blocks_end(content, offset + 11 + _gif_palette(content[offset + 9]))
            parts.append(content[start:offset])
        else:
            raise ValueError("an unknown kind of block")
    return b"".join([*parts, b"\x3b"])


def _gif_extension(part: bytes) -> bytes:
    """The extension if it defines how frames are displayed; empty for comments, text and applications."""
    if part[1] == 0xF9 and part[2] == 4:
        return part[:7] + b"\0"
    if part[1] == 0xFF and part[3:14] in GIF_LOOPS and part[14] == 3:
        return part[:18] + b"\0"
    return b""


def _gif_palette(flags: int) -> int:
    """Size in bytes of the colour table that a descriptor declares."""
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _gif_blocks_end(content: bytes, offset: int) -> int:
    while length := content[offset]:
        offset += 1 + length
    return offset + 1
