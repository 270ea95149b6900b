"""Bounds on the number of parts of picture files, checked before anything else reads them.

A header of very many tiny parts takes decoders a time quadratic in their number; no camera or program writes thousands.
A JPEG with very many scans is as slow, since each is a pass over all pixels, and so is a TIFF with very many strips.
"""

import re
from typing import IO, Literal

MAX_PARTS = 2000  # before the pixels
MAX_SCANS = 50  # of a JPEG; programs write a dozen at most
SEGMENT = re.compile(rb"\xff[\xc0-\xcf\xd9-\xfe]")  # the marker of a JPEG segment with a length, or of the end
SCAN, END = 0xDA, 0xD9
TIFF, BIG_TIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"), 43
PIECES = (273, 279, 324, 325)  # tags of a TIFF: offsets and lengths of its strips or tiles
# Boxes of HEIC and AVIF that contain others, and the bytes before these.
BOXES = {b"meta": 4, b"iprp": 0, b"ipco": 0, b"iinf": 6, b"iref": 4, b"moov": 0, b"trak": 0}
LONGEST_FILE = 2**40  # bytes
MAX_BLOCKS = 100_000  # blocks of at most 255 bytes in the extensions of a GIF, and other tiny parts


class TooManyParts(ValueError):
    """The file has more than MAX_PARTS parts before its pixels, or more scans or pieces than any normal file."""


def _too_many(name: str) -> TooManyParts:
    return TooManyParts(f"its header has more than {MAX_PARTS} {name}")


def check_parts(file: IO[bytes]) -> None:
    """Count the parts before the pixels of a JPEG, PNG, WebP, GIF, TIFF, HEIC or AVIF. Raises TooManyParts where they
    exceed the bounds."""
    head = file.read(12)
    if head.startswith(b"\xff\xd8"):
        _check_jpeg(file)
    elif head.startswith(b"\x89PNG\r\n\x1a\n"):
        _check_png(file)
    elif head.startswith(b"RIFF") and head.endswith(b"WEBP"):
        _check_webp(file)
    elif head.startswith(b"GIF8"):
        _check_gif(file)
    elif head[:4] in TIFF:
        _check_tiff(file)
    elif head[4:8] == b"ftyp":
        _check_boxes(file)
    file.seek(0)


def _check_jpeg(file: IO[bytes]) -> None:
    """Count segments and scans as decoders do: bytes between segments are skipped."""
    file.seek(2)
    content = file.read()
    place = num_segments = num_scans = 0
    while (match := SEGMENT.search(content, place)) and content[match.end() - 1] != END:
        if num_scans == 0 and match.start() - place > MAX_BLOCKS:
            raise TooManyParts(f"its header has more than {MAX_BLOCKS} bytes between two segments")
        place = match.end() + max(2, int.from_bytes(content[match.end() : match.end() + 2], "big"))
        num_scans += content[match.end() - 1] == SCAN
        num_segments += 1
        if num_scans > MAX_SCANS:
            raise TooManyParts(f"its pixels come in more than {MAX_SCANS} scans")
        if num_segments > MAX_PARTS:
            raise _too_many("segments")


def _check_tiff(file: IO[bytes]) -> None:
    """Count the strips or tiles of the first picture, each of which is decoded separately."""
    file.seek(0)
    head = file.read(16)
    order: Literal["little", "big"] = "little" if head.startswith(b"II") else "big"
    big = int.from_bytes(head[2:4], order) == BIG_TIFF
    count_size, entry_size, value_size = (8, 20, 8) if big else (2, 12, 4)
    file.seek(int.from_bytes(head[8:16] if big else head[4:8], order) % LONGEST_FILE)
    for number in range(int.from_bytes(file.read(count_size), order)):
        entry = file.read(entry_size)
        if len(entry) < entry_size:
            return
        if number == MAX_PARTS:
            raise _too_many("entries")
        tag, count = int.from_bytes(entry[:2], order), int.from_bytes(entry[4 : 4 + value_size], order)
        if tag in PIECES and count > MAX_BLOCKS:
            raise TooManyParts(f"its pixels come in more than {MAX_BLOCKS} pieces")


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
