"""ZIP archives of stored files, written in one pass: their length is known before the first byte.

Nothing is compressed, since pictures are already. Each entry has its size and checksum in front, so that every program
can read it; ZIP64 fields appear where a size or an offset needs them (APPNOTE.TXT 6.3.10, sections 4.3 to 4.5).
"""

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO

ZIP_PART_BYTES = 2**20
ELSEWHERE, ELSEWHERE_16 = 2**32 - 1, 2**16 - 1  # in a field whose number is in a ZIP64 field
LARGE = ELSEWHERE  # the least number for which that is needed
ZIP64, PLAIN = 45, 20  # the versions of the format that are needed
NAME_IS_UTF_8 = 0x800
UNIX_FILE = 0o100644 << 16
FIRST, LAST = datetime(1980, 1, 1, tzinfo=UTC), datetime(2107, 12, 31, 23, 59, 58, tzinfo=UTC)


@dataclass(frozen=True)
class ZipEntry:
    """A file of an archive: its name, its size in bytes, and its time in seconds since 1970."""

    name: str
    size: int
    modified_at: float


def zip_length(entries: Sequence[ZipEntry]) -> int:
    """The length of the archive in bytes."""
    headers = sum(len(_local_header(entry, 0)) + entry.size for entry in entries)
    return headers + len(_directory(entries, [0] * len(entries)))


def zip_parts(entries: Sequence[ZipEntry], open_entry: Callable[[int], IO[bytes]]) -> Iterator[bytes]:
    """The archive in parts of at most ZIP_PART_BYTES of content; `open_entry` opens the file of an entry by its place.

    Raises ValueError where a file has another size than its entry says, and whatever `open_entry` raises.
    """
    checksums: list[int] = []
    for place, entry in enumerate(entries):
        with open_entry(place) as file:
            checksum, size = 0, 0
            while part := file.read(ZIP_PART_BYTES):
                checksum, size = zlib.crc32(part, checksum), size + len(part)
            if size != entry.size:
                raise ValueError(f"a file of the archive has {size} bytes, not {entry.size}")
            checksums.append(checksum)
            yield _local_header(entry, checksum)
            file.seek(0)
            while part := file.read(ZIP_PART_BYTES):
                yield part
    yield _directory(entries, checksums)


def _local_header(entry: ZipEntry, checksum: int) -> bytes:
    name, is_large = entry.name.encode(), entry.size >= LARGE
    extra = struct.pack("<HHQQ", 1, 16, entry.size, entry.size) if is_large else b""
    size = _field(entry.size)
    fields = (
        ZIP64 if is_large else PLAIN,
        NAME_IS_UTF_8,
        0,
        *_dos_time(entry),
        checksum,
        size,
        size,
        len(name),
        len(extra),
    )
    return struct.pack("<4sHHHHHIIIHH", b"PK\3\4", *fields) + name + extra


def _directory(entries: Sequence[ZipEntry], checksums: Sequence[int]) -> bytes:
    """The list of all entries, which ends an archive."""
    listed, offset = bytearray(), 0
    for entry, checksum in zip(entries, checksums, strict=True):
        listed += _listed(entry, checksum, offset)
        offset += len(_local_header(entry, checksum)) + entry.size
    num, size = len(entries), len(listed)
    if max(offset, size) >= LARGE or num >= ELSEWHERE_16:
        fields = (44, 3 << 8 | ZIP64, ZIP64, 0, 0, num, num, size, offset)
        listed += struct.pack("<4sQHHIIQQQQ", b"PK\6\6", *fields)
        listed += struct.pack("<4sIQI", b"PK\6\7", 0, offset + size, 1)
    short = min(num, ELSEWHERE_16)
    listed += struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, short, short, _field(size), _field(offset), 0)
    return bytes(listed)


def _listed(entry: ZipEntry, checksum: int, offset: int) -> bytes:
    large = [entry.size] * 2 if entry.size >= LARGE else []
    large += [offset] if offset >= LARGE else []
    extra = struct.pack(f"<HH{len(large)}Q", 1, 8 * len(large), *large) if large else b""
    name, size, version = entry.name.encode(), _field(entry.size), ZIP64 if large else PLAIN
    head = (3 << 8 | ZIP64, version, NAME_IS_UTF_8, 0, *_dos_time(entry), checksum, size, size, len(name), len(extra))
    rest = (0, 0, 0, UNIX_FILE, _field(offset))
    return struct.pack("<4sHHHHHHIIIHHHHHII", b"PK\1\2", *head, *rest) + name + extra


def _field(number: int) -> int:
    return number if number < LARGE else ELSEWHERE


def _dos_time(entry: ZipEntry) -> tuple[int, int]:
    """The time of an entry as the format has it: UTC here, from 1980 on, in steps of two seconds."""
    seconds = min(max(entry.modified_at, FIRST.timestamp()), LAST.timestamp())
    at = datetime.fromtimestamp(seconds, UTC)
    return at.hour << 11 | at.minute << 5 | at.second // 2, (at.year - 1980) << 9 | at.month << 5 | at.day
