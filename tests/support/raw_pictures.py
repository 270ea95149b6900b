"""A camera's RAW file, as small as one can be: a DNG with the sensor's values, and a JPEG beside them."""

import struct

SHORT, LONG, RATIONAL, SIGNED_RATIONAL, BYTE, ASCII, UNDEFINED = 3, 4, 5, 10, 1, 2, 7
SIZES = {BYTE: 1, ASCII: 1, SHORT: 2, LONG: 4, RATIONAL: 8, SIGNED_RATIONAL: 8, UNDEFINED: 1}
SENSOR_SIDE = 64
Tag = tuple[int, int, int, bytes]


def shorts(tag: int, *values: int) -> Tag:
    """A tag of 16-bit numbers."""
    return tag, SHORT, len(values), struct.pack(f"<{len(values)}H", *values)


def longs(tag: int, *values: int) -> Tag:
    """A tag of 32-bit numbers."""
    return tag, LONG, len(values), struct.pack(f"<{len(values)}I", *values)


def text(tag: int, value: str) -> Tag:
    """A tag of text."""
    return tag, ASCII, len(value) + 1, value.encode() + b"\0"


def directory(tags: list[Tag], offset: int) -> bytes:
    """A TIFF directory that stands at `offset`, with what its tags point to behind it."""
    entries, behind = b"", b""
    place = offset + 2 + 12 * len(tags) + 4
    for tag, kind, count, value in sorted(tags):
        if len(value) <= 4:
            entries += struct.pack("<HHI", tag, kind, count) + value.ljust(4, b"\0")
        else:
            entries += struct.pack("<HHII", tag, kind, count, place + len(behind))
            behind += value + b"\0" * (len(value) % 2)
    return struct.pack("<H", len(tags)) + entries + bytes(4) + behind


def dng(preview: bytes, width: int, height: int, orientation: int = 1, taken: str = "2024:05:01 10:00:00") -> bytes:
    """A DNG whose preview is the JPEG `preview` of that size; the sensor saw grey alone."""
    sensor = struct.pack("<H", 2000) * SENSOR_SIDE**2
    preview_at = 8
    sensor_at = preview_at + len(preview) + len(preview) % 2
    exif_at = sensor_at + len(sensor)
    exif = directory([text(0x9003, taken), text(0x9004, taken)], exif_at)
    sensor_tags_at = exif_at + len(exif)
    sensor_tags = directory(
        [
            longs(0x00FE, 0),
            longs(0x0100, SENSOR_SIDE),
            longs(0x0101, SENSOR_SIDE),
            shorts(0x0102, 16),
            shorts(0x0103, 1),
            shorts(0x0106, 32803),
            longs(0x0111, sensor_at),
            shorts(0x0115, 1),
            longs(0x0116, SENSOR_SIDE),
            longs(0x0117, len(sensor)),
            shorts(0x828D, 2, 2),
            (0x828E, BYTE, 4, bytes([0, 1, 1, 2])),
        ],
        sensor_tags_at,
    )
    first_at = sensor_tags_at + len(sensor_tags)
    matrix = struct.pack("<18i", *[number for n in range(9) for number in ((1 if n % 4 == 0 else 0), 1)])
    first = directory(
        [
            longs(0x00FE, 1),
            longs(0x0100, width),
            longs(0x0101, height),
            shorts(0x0102, 8, 8, 8),
            shorts(0x0103, 7),
            shorts(0x0106, 6),
            text(0x010F, "Regard"),
            text(0x0110, "Drawn"),
            longs(0x0111, preview_at),
            shorts(0x0112, orientation),
            shorts(0x0115, 3),
            longs(0x0116, height),
            longs(0x0117, len(preview)),
            text(0x0132, taken),
            longs(0x014A, sensor_tags_at),
            longs(0x8769, exif_at),
            (0xC612, BYTE, 4, bytes([1, 4, 0, 0])),
            (0xC613, BYTE, 4, bytes([1, 1, 0, 0])),
            text(0xC614, "Regard Drawn"),
            (0xC621, SIGNED_RATIONAL, 9, matrix),
        ],
        first_at,
    )
    padded = preview + b"\0" * (len(preview) % 2)
    return struct.pack("<2sHI", b"II", 42, first_at) + padded + sensor + exif + sensor_tags + first
