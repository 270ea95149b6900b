"""Picture files counted in parts, before anything else reads them.

A header made of very many tiny parts takes a decoder time that grows with the square of their number; no camera and no
program writes thousands. So does a JPEG whose pixels come in very many scans: each is a pass over all of them.
"""

import re
from typing import IO

MAX_PARTS = 2000  # before the pixels
MAX_SCANS = 50  # of a JPEG; programs write a dozen at most
MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")  # one that ends a scan
SCAN, END = 0xDA, 0xD9
# Boxes of HEIC and AVIF that hold others, and the bytes before these.
BOXES = {b"meta": 4, b"iprp": 0, b"ipco": 0, b"iinf": 6, b"iref": 4, b"moov": 0, b"trak": 0}
LONGEST_FILE = 2**40  # bytes
MAX_BLOCKS = 100_000  # of at most 255 bytes, which the extensions of a GIF are cut into; also fill bytes of a JPEG


class TooManyParts(ValueError):
    """The file has more than MAX_PARTS parts before its pixels, or they come in more than MAX_SCANS scans."""


def _too_many(name: str) -> TooManyParts:
    return TooManyParts(f"its header has more than {MAX_PARTS} {name}")


def check_parts(file: IO[bytes]) -> None:
    """Count the parts before the pixels of a JPEG, PNG, WebP, GIF, HEIC or AVIF; TooManyParts."""
    head = file.read(12)
    if head.startswith(b"\xff\xd8"):
        _check_jpeg(file)
    elif head.startswith(b"\x89PNG\r\n\x1a\n"):
        _check_png(file)
    elif head.startswith(b"RIFF") and head.endswith(b"WEBP"):
        _check_webp(file)
    elif head.startswith(b"GIF8"):
        _check_gif(file)
    elif head[4:8] == b"ftyp":
        _check_boxes(file)
    file.seek(0)


def _check_jpeg(file: IO[bytes]) -> None:
    file.seek(2)
    fill_bytes = 0
    for _ in range(MAX_PARTS):
        marker = file.read(2)
        while marker == b"\xff\xff" and fill_bytes < MAX_BLOCKS:
            marker = b"\xff" + file.read(1)
            fill_bytes += 1
        # The pixels, the end, or no segment at all: what follows is the decoder's to judge.
        if len(marker) < 2 or marker[0] != 0xFF or marker[1] == END:
            return
        if marker[1] == SCAN:
            _check_scans(file.read())
            return
        if marker[1] in (0x01, *range(0xD0, 0xD8)):
            continue
        if fill_bytes == MAX_BLOCKS:
            break
        length = file.read(2)
        if len(length) < 2:
            return
        file.seek(max(0, int.from_bytes(length, "big") - 2), 1)
    raise _too_many("segments")


def _check_scans(content: bytes) -> None:
    """Count the scans of one picture, of which `content` begins behind the first marker of a scan."""
    num_scans, place = 1, 0
    for _ in range(MAX_PARTS):
        place += int.from_bytes(content[place : place + 2], "big")
        found = MARKER.search(content, place)
        if found is None or content[found.start() + 1] == END:
            return
        place = found.end()
        num_scans += content[found.start() + 1] == SCAN
        if num_scans > MAX_SCANS:
            raise TooManyParts(f"its pixels come in more than {MAX_SCANS} scans")
    raise _too_many("segments")


def _check_png(file: IO[bytes]) -> None:
    file.seek(8)
    for _ in range(MAX_PARTS):
        head = file.read(8)
        if len(head) < 8 or head[4:] in (b"IDAT", b"IEND"):
            return
        file.seek(int.from_bytes(head[:4], "big") + 4, 1)
    raise _too_many("chunks")


def _check_webp(file: IO[bytes]) -> None:
    file.seek(12)
    for _ in range(MAX_PARTS):
        head = file.read(8)
        if len(head) < 8 or head[:4] in (b"VP8 ", b"VP8L", b"ANMF"):
            return
        length = int.from_bytes(head[4:], "little")
        file.seek(length + length % 2, 1)
    raise _too_many("chunks")


def _check_gif(file: IO[bytes]) -> None:
    file.seek(10)
    flags = file.read(3)[:1] or b"\0"
    if flags[0] & 0x80:
        file.seek(3 << (flags[0] & 7) + 1, 1)
    blocks = 0
    for _ in range(MAX_PARTS):
        kind = file.read(1)
        if kind != b"!":  # an extension; the first picture ends the header
            return
        file.seek(1, 1)
        while length := (file.read(1) or b"\0")[0]:
            file.seek(length, 1)
            blocks += 1
            if blocks > MAX_BLOCKS:
                raise _too_many("blocks")
    raise _too_many("extensions")


def _check_boxes(file: IO[bytes]) -> None:
    file.seek(0)
    for _ in range(MAX_PARTS):
        start, head = file.tell(), file.read(16)
        length = int.from_bytes(head[:4], "big")
        if length == 1:  # the length follows, in eight bytes
            length = int.from_bytes(head[8:16], "big")
        if len(head) < 8 or length < 8:  # the end, or a box that reaches to it
            return
        kind = head[4:8]
        file.seek(start + 8 + BOXES[kind] if kind in BOXES else start + min(length, LONGEST_FILE))
    raise _too_many("boxes")
