"""Small files of several kinds that cost a decoder much time or memory.

python -m tests.support.bombs prints the outcome of each, with time and memory.
"""

import os
import re
import struct
import tempfile
import time
import zlib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import PIL.Image

from service.errors import UnreadablePicture
from service.media.decode_pool import DecodeFailed, DecodePool
from service.settings import Settings
from service.this_machine import children_of
from tests.support.pictures import claiming_size, corners, encoded, heic_corners, huge_png, png_chunk

MB = 2**20
ENTITIES = b"".join(b'<!ENTITY e%d "%s">' % (n, b"&e%d;" % (n - 1) * 10) for n in range(1, 10))
LAUGHS = b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e0 "ha">' + ENTITIES + b"]><x>&e9;</x>"


def with_chunks(*chunks: bytes) -> bytes:
    """A small PNG with more chunks before its pixels."""
    whole = encoded(corners(), "PNG")
    place = whole.index(b"IDAT") - 4
    return whole[:place] + b"".join(chunks) + whole[place:]


def zipped_text() -> bytes:
    """A PNG whose text and colour profile unfold to 200 MB each."""
    packer = zlib.compressobj(9)
    packed = b"".join(packer.compress(bytes(MB)) for _ in range(200)) + packer.flush()
    return with_chunks(png_chunk(b"zTXt", b"x\0\0" + packed), png_chunk(b"iCCP", b"x\0\0" + packed))


def scans(side: int, count: int) -> bytes:
    """A progressive JPEG that repeats its last scan: each is a pass over all coefficients."""
    whole = encoded(PIL.Image.new("L", (side, side)), "JPEG", progressive=True)
    last = whole.rindex(b"\xff\xda")
    return whole[:last] + whole[last:-2] * count + whole[-2:]


def between_segments(whole: bytes, parts: bytes) -> bytes:
    """A JPEG with other bytes behind its first segment and before each of its scans, which decoders pass over."""
    first = 4 + int.from_bytes(whole[4:6], "big")
    return whole[:first] + parts + whole[first:].replace(b"\xff\xda", parts + b"\xff\xda")


def striped_tiff(count: int) -> bytes:
    """A TIFF with one strip per row, all at the same offset."""
    offsets = struct.pack("<H", 8) * count
    folder = 8 + len(offsets)
    tags = [(256, 4, 1, 80), (257, 4, 1, count), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1)]
    tags += [(273, 3, count, 8), (277, 3, 1, 1), (278, 4, 1, 1), (279, 3, count, 8)]
    entries = b"".join(struct.pack("<HHII", *tag) for tag in tags)
    return b"II*\0" + struct.pack("<I", folder) + offsets + struct.pack("<H", len(tags)) + entries + bytes(4)


def nested_keywords(depth: int, items: int) -> bytes:
    """A PNG whose XMP packs lists of keywords into each other, with their items in the innermost."""
    spaces = b'xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:d="http://purl.org/dc/elements/1.1/"'
    inside = b"<d:subject>" * depth + b"<r:li/>" * items + b"</d:subject>" * depth
    packet = zlib.compress(b"<r:RDF " + spaces + b">" + inside + b"</r:RDF>", 9)
    return with_chunks(png_chunk(b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0" + packet))


def gif(width: int, height: int, frames: int) -> bytes:
    """An animation of tiny frames that claims this screen size."""
    frame = encoded(PIL.Image.new("P", (4, 4)), "GIF")
    start = frame.index(b"\x2c")
    head = bytearray(frame[:start])
    struct.pack_into("<HH", head, 6, width, height)
    return bytes(head) + frame[start:-1] * frames + b";"


def bmp(width: int, height: int) -> bytes:
    """A run-length-coded BMP that claims this size, without data."""
    header = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 8, 1, 0, 0, 0, 256, 0)
    return b"BM" + struct.pack("<IHHI", 54 + 1024 + 2, 0, 0, 54 + 1024) + header + bytes(1024) + b"\0\1"


def tiff(width: int, height: int) -> bytes:
    """A TIFF of that size in one deflated strip of zeros, a hundredth of what it says."""
    strip = zlib.compress(bytes(width * height // 100), 9)
    tags = [(256, 4, width), (257, 4, height), (258, 3, 8), (259, 3, 8), (262, 3, 1), (273, 4, 8)]
    tags += [(277, 3, 1), (278, 4, height), (279, 4, len(strip))]
    entries = b"".join(struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in tags)
    folder = struct.pack("<H", len(tags)) + entries + bytes(4)
    return b"II*\0" + struct.pack("<I", 8 + len(strip)) + strip + folder


def looping_tiff() -> bytes:
    """A TIFF whose directory names itself as the next one, also in its thumbnail."""
    whole = bytearray(encoded(corners(), "TIFF"))
    (place,) = struct.unpack_from("<I", whole, 4)
    (count,) = struct.unpack_from("<H", whole, place)
    struct.pack_into("<I", whole, place + 2 + 12 * count, place)
    return bytes(whole)


def webp(side: int) -> bytes:
    """A WebP whose canvas claims this size."""
    whole = bytearray(encoded(corners(), "WEBP", exif=b"Exif\0\0II*\0\x08\0\0\0\0\0"))
    size = (side - 1).to_bytes(3, "little")
    place = whole.index(b"VP8X") + 12
    whole[place : place + 6] = size + size
    return bytes(whole)


def jpeg(width: int, height: int) -> bytes:
    """A JPEG that claims this size."""
    whole = bytearray(encoded(corners(), "JPEG"))
    struct.pack_into(">HH", whole, whole.index(b"\xff\xc0") + 5, height, width)
    return bytes(whole)


BOMBS: Mapping[str, Callable[[], bytes]] = {
    "PNG of 400 megapixels": lambda: huge_png(20_000, 20_000),
    "PNG whose text and profile unfold to 400 MB": zipped_text,
    "PNG of 100 000 chunks": lambda: with_chunks(*[png_chunk(b"tEXt", b"x\0x")] * 100_000),
    "PNG with a billion laughs": lambda: with_chunks(png_chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + LAUGHS)),
    "JPEG with a billion laughs": lambda: encoded(corners(), "JPEG", xmp=LAUGHS),
    "JPEG that claims 65 500 x 65 500": lambda: jpeg(65_500, 65_500),
    "JPEG of 16 megapixels in 5 000 scans": lambda: scans(4_000, 5_000),
    "the same with other bytes between its segments": lambda: between_segments(
        scans(4_000, 5_000), b"\0\xff\x01\xff\x02"
    ),
    "GIF that claims 65 535 x 65 535": lambda: gif(65_535, 65_535, 1),
    "GIF of 100 000 frames": lambda: gif(200, 200, 100_000),
    "BMP that claims 30 000 x 30 000": lambda: bmp(30_000, 30_000),
    "TIFF that claims 30 000 x 30 000": lambda: tiff(30_000, 30_000),
    "TIFF that leads back to itself": looping_tiff,
    "TIFF of a million strips": lambda: striped_tiff(1_000_000),
    "PNG with 18 500 keywords in 5 600 lists": lambda: nested_keywords(5_600, 18_500),
    "WebP that claims 16 384 x 16 384": lambda: webp(16_384),
    "AVIF that claims 30 000 x 30 000": lambda: claiming_size(encoded(corners(), "AVIF"), 30_000, 30_000),
    "HEIC that claims 30 000 x 30 000": lambda: claiming_size(heic_corners(), 30_000, 30_000),
}


@cache
def bomb(name: str) -> bytes:
    """The file of that name."""
    return BOMBS[name]()


def memory(child: int) -> int:
    """The peak memory of a process in bytes."""
    status = Path(f"/proc/{child}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return 1024 * int(found[1])


def set_off(name: str, folder: Path) -> tuple[str, float, int]:
    """The outcome of decoding a bomb like an upload, the seconds, and the bytes beyond an idle decoder's."""
    path = folder / "bomb"
    path.write_bytes(encoded(corners(), "PNG"))
    before = set(children_of(os.getpid()))
    with DecodePool.from_settings(Settings(decode_workers=1), readable=[folder]) as pool:
        pool.decode(path, folder / "thumbnail.jpg")
        (child,) = set(children_of(os.getpid())) - before
        own = memory(child)
        path.write_bytes(bomb(name))
        begun = time.monotonic()
        try:
            extension = pool.inspect(path)
            pool.decode(path, folder / "thumbnail.jpg", folder / f"shown.{extension}")
            outcome = "shown"
        except UnreadablePicture as problem:
            outcome = problem.detail
        except DecodeFailed as failed:
            outcome = failed.reason
        seconds = time.monotonic() - begun
        try:
            return outcome, seconds, memory(child) - own
        except OSError:  # it was ended
            return outcome, seconds, Settings().decode_memory_bytes


def main() -> None:
    """Decode all bombs and print the outcomes."""
    for name in BOMBS:
        with tempfile.TemporaryDirectory() as folder:
            outcome, seconds, extra = set_off(name, Path(folder))
        print(f"| {name} | {len(bomb(name)) // 1024} KB | {seconds:.2f} s | {extra / MB:.0f} MB | {outcome} |")


if __name__ == "__main__":
    main()
