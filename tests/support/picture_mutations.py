"""A mutator of picture files, decided by a seed: bits, ranges, lengths and dimensions, also behind right checksums."""

import random
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.support.picture_seeds import sound_files

ODD = (0, 1, 2, 3, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
SIDES = (0, 1, 7, 16_383, 16_384, 30_000, 65_535, 2**20, 2**31 - 1, 2**32 - 1)
NUM_CHANGES = (1, 1, 1, 2, 4)  # mostly one: what is changed much is refused at its header
PNG_HEAD = 8
SOFS = (0xC0, 0xC1, 0xC2)


@dataclass(frozen=True)
class MutatedFile:
    """What a file was, what was done to it, and what came of it."""

    kind: str
    changes: tuple[str, ...]
    content: bytes


def mutated_files(count: int, seed: int) -> Iterator[MutatedFile]:
    """That many files, the formats in turn."""
    kinds = list(sound_files())
    for number in range(count):
        yield mutated_file(kinds[number % len(kinds)], random.Random(f"{seed} {number}"))


def mutated_file(kind: str, rng: random.Random) -> MutatedFile:
    """One file of a format, changed in one to four ways."""
    content = bytearray(rng.choice(sound_files()[kind]))
    changes = []
    for _ in range(rng.choice(NUM_CHANGES)):
        change = rng.choice(CHANGES)
        change(content, rng)
        changes.append(change.__name__)
    if content.startswith(b"\x89PNG") and rng.random() < 0.8:
        right_png_checksums(content)  # or hardly anything gets past them
    return MutatedFile(kind, tuple(changes), bytes(content))


def _range(content: bytearray, rng: random.Random) -> tuple[int, int]:
    """Start and end of a part, more often a short one."""
    start = rng.randrange(len(content) + 1)
    longest = rng.choice((4, 64, len(content)))
    return start, min(len(content), start + rng.randint(0, longest))


def flip_bits(content: bytearray, rng: random.Random) -> None:
    """Flip some bits."""
    for _ in range(rng.randint(1, 16) if content else 0):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)


def flip_bits_of_the_head(content: bytearray, rng: random.Random) -> None:
    """Flip some bits where headers lie."""
    for _ in range(rng.randint(1, 8) if content else 0):
        content[rng.randrange(min(len(content), 200))] ^= 1 << rng.randrange(8)


def truncate(content: bytearray, rng: random.Random) -> None:
    """Cut the end off."""
    del content[rng.randrange(len(content) + 1) :]


def zero(content: bytearray, rng: random.Random) -> None:
    """Overwrite a part with zeros."""
    start, end = _range(content, rng)
    content[start:end] = bytes(end - start)


def remove(content: bytearray, rng: random.Random) -> None:
    """Take a part out."""
    start, end = _range(content, rng)
    del content[start:end]


def repeat(content: bytearray, rng: random.Random) -> None:
    """Put a part there several times."""
    start, end = _range(content, rng)
    content[end:end] = content[start:end] * rng.randint(1, 20)


def splice(content: bytearray, rng: random.Random) -> None:
    """Put in a part of another file, more often of the same format."""
    files = sound_files()
    start, end = _range(content, rng)
    other = bytearray(rng.choice(files[rng.choice(sorted(files))]))
    content[start:end] = other[slice(*_range(other, rng))]


def odd_number(content: bytearray, rng: random.Random) -> None:
    """Overwrite two, four or eight bytes with a number at which lengths and offsets go wrong."""
    size = rng.choice((2, 4, 8))
    if len(content) < size:
        return
    place = rng.randrange(min(len(content) - size + 1, rng.choice((64, 512, len(content)))))
    number = rng.choice((*ODD, len(content), len(content) - place)) & (256**size - 1)
    content[place : place + size] = number.to_bytes(size, rng.choice(("big", "little")))


def odd_dimensions(content: bytearray, rng: random.Random) -> None:
    """Let the file claim another width and height."""
    fields = dimension_fields(content)
    if fields:
        place, form = rng.choice(fields)
        most = 256 ** (struct.calcsize(form) // 2) - 1
        struct.pack_into(form, content, place, *(min(rng.choice(SIDES), most) for _ in range(2)))


def dimension_fields(content: bytes | bytearray) -> list[tuple[int, str]]:
    """Where a file says its width and height, and how they are packed."""
    found = []
    if content.startswith(b"\x89PNG") and len(content) >= 24:
        found.append((16, ">II"))
    if content.startswith(b"GIF8") and len(content) >= 10:
        found.append((6, "<HH"))
    if content.startswith(b"BM") and len(content) >= 26:
        found.append((18, "<II"))
    for sof in SOFS if content.startswith(b"\xff\xd8") else ():
        place = content.find(bytes([0xFF, sof]))
        if 0 <= place <= len(content) - 9:
            found.append((place + 5, ">HH"))
    for name, skip, form in ((b"VP8 ", 14, "<HH"), (b"ispe", 8, ">II")):
        place = content.find(name)
        if 0 <= place <= len(content) - skip - struct.calcsize(form):
            found.append((place + skip, form))
    if content.startswith((b"II*\0", b"MM\0*")):
        found += _tiff_dimensions(content)
    return found


def _tiff_dimensions(content: bytes | bytearray) -> list[tuple[int, str]]:
    """The values of the tags ImageWidth and ImageLength, each with two bytes after it."""
    order = "<" if content.startswith(b"II") else ">"
    tags = (struct.pack(f"{order}HH", tag, kind) for tag in (256, 257) for kind in (3, 4))
    places = [content.find(tag) for tag in tags]
    return [(place + 8, f"{order}HH") for place in places if 0 <= place <= len(content) - 12]


def right_png_checksums(content: bytearray) -> None:
    """Give every chunk the checksum of what it holds now."""
    place = PNG_HEAD
    while place + 12 <= len(content):
        (length,) = struct.unpack_from(">I", content, place)
        end = place + 8 + length
        if end + 4 > len(content):
            return
        struct.pack_into(">I", content, end, zlib.crc32(content[place + 4 : end]))
        place = end + 4


CHANGES: tuple[Callable[[bytearray, random.Random], None], ...] = (
    flip_bits,
    flip_bits_of_the_head,
    truncate,
    zero,
    remove,
    repeat,
    splice,
    odd_number,
    odd_number,  # twice as often: most faults of decoders lie there
    odd_dimensions,
)
