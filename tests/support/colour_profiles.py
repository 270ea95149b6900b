"""Colour profiles in which numbers mean other colours than in sRGB."""

import struct
from collections.abc import Mapping
from functools import cache

from PIL import ImageCms

HEAD, PLACE = 128, 12  # bytes of a profile's header, and of an entry of its table of tags
# Inks of a press that prints red for cyan, green for magenta and blue for yellow.
INKS_IN_LAB: dict[tuple[int, ...], tuple[int, int, int]] = {
    (0, 0, 0, 0): (255, 128, 128),
    (1, 0, 0, 0): (138, 209, 198),
    (0, 1, 0, 0): (224, 42, 211),
    (0, 0, 1, 0): (82, 207, 20),
}
BLACK_IN_LAB = (0, 128, 128)


@cache
def srgb() -> bytes:
    """The profile of sRGB."""
    return ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


@cache
def swapped() -> bytes:
    """A profile like that of sRGB with red and blue swapped."""
    content = bytearray(srgb())
    (count,) = struct.unpack_from(">I", content, HEAD)
    entries = [struct.unpack_from(">4sII", content, HEAD + 4 + PLACE * number) for number in range(count)]
    (red, length), (blue, _) = (next(entry[1:] for entry in entries if entry[0] == name) for name in (b"rXYZ", b"bXYZ"))
    first, second = content[red : red + length], content[blue : blue + length]
    content[red : red + length], content[blue : blue + length] = second, first
    return bytes(content)


@cache
def grey(gamma: float) -> bytes:
    """A profile of grey pictures."""
    return made(b"GRAY", b"XYZ ", {b"kTRC": b"curv" + struct.pack(">IIH", 0, 1, round(gamma * 256))})


@cache
def press() -> bytes:
    """A profile of CMYK pictures, with INKS_IN_LAB and black for all other mixtures."""
    corners = [tuple(number >> bit & 1 for bit in (3, 2, 1, 0)) for number in range(16)]
    table = bytes(value for corner in corners for value in INKS_IN_LAB.get(corner, BLACK_IN_LAB))
    straight = bytes(range(256))
    identity = struct.pack(">9i", *(65536 * (number % 4 == 0) for number in range(9)))
    lut = b"mft1\0\0\0\0" + bytes([4, 3, 2, 0]) + identity + 4 * straight + table + 3 * straight
    return made(b"CMYK", b"Lab ", {b"A2B0": lut}, kind=b"prtr")


def made(space: bytes, connection: bytes, tags: Mapping[bytes, bytes], kind: bytes = b"mntr") -> bytes:
    """A profile of version 2 with these tags."""
    places, body, start = b"", b"", HEAD + 4 + PLACE * len(tags)
    for name, content in tags.items():
        places += struct.pack(">4sII", name, start + len(body), len(content))
        body += content + bytes(-len(content) % 4)
    head = bytearray(HEAD)
    struct.pack_into(">I4sI4s4s4s", head, 0, start + len(body), b"test", 0x02100000, kind, space, connection)
    head[36:40] = b"acsp"
    struct.pack_into(">3i", head, 68, 63190, 65536, 54061)  # the white of every profile
    return bytes(head) + struct.pack(">I", len(tags)) + places + body
