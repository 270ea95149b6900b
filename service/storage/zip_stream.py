"""ZIP archives of stored files, sent as they are written. Nothing is compressed, since pictures are already."""

import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from io import RawIOBase
from typing import IO

ZIP_PART_BYTES = 2**20
FIRST, LAST = datetime(1980, 1, 1, tzinfo=UTC), datetime(2107, 12, 31, 23, 59, 58, tzinfo=UTC)  # that a ZIP can tell


@dataclass(frozen=True)
class ZipEntry:
    """A file of an archive: its name, its size in bytes, and its time in seconds since 1970."""

    name: str
    size: int
    modified_at: float


class _Written(RawIOBase):
    """A file that is only written: what was written since it was last taken."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, part: bytes) -> int:  # type: ignore[override]  # zipfile writes bytes
        self._parts.append(bytes(part))
        return len(part)

    def take(self) -> bytes:
        taken = b"".join(self._parts)
        self._parts.clear()
        return taken


def zip_parts(entries: Sequence[ZipEntry], open_entry: Callable[[int], IO[bytes]]) -> Iterator[bytes]:
    """The archive in parts of about ZIP_PART_BYTES; `open_entry` opens the file of an entry by its place.

    Raises OSError where a file has another size than its entry says, and whatever `open_entry` raises.
    """
    written = _Written()
    with zipfile.ZipFile(written, "w") as archive:
        for place, entry in enumerate(entries):
            with open_entry(place) as file, archive.open(_info(entry), "w") as target:
                left = entry.size
                while part := file.read(ZIP_PART_BYTES):
                    left -= len(part)
                    target.write(part)
                    yield written.take()
            if left:
                # An OSError, whose message is logged: names of files are not.
                raise OSError(f"file {place + 1} of the archive has {entry.size - left} bytes, not {entry.size}")
    yield written.take()


def zip_length(entries: Iterable[ZipEntry]) -> int:
    """The length of the archive in bytes, without reading a file.

    A length that is told beforehand lets clients, also behind a proxy, notice an archive that was cut short.
    """
    limit = zipfile.ZIP64_LIMIT
    start = listed = number = 0
    for entry in entries:
        info, number = _info(entry), number + 1
        name = len(info.filename.encode())
        # As zipfile does: sizes near the limit take the long fields before the file, in case compression adds some.
        is_long = entry.size * 1.05 > limit
        long_fields = 8 * (2 * (entry.size > limit) + (start > limit))
        listed += 46 + name + (4 + long_fields if long_fields else 0)
        start += 30 + name + (20 if is_long else 0) + entry.size + (24 if is_long else 16)
    is_large = number > zipfile.ZIP_FILECOUNT_LIMIT or max(start, listed) > limit
    return start + listed + (98 if is_large else 22)


def _info(entry: ZipEntry) -> zipfile.ZipInfo:
    """The entry as zipfile takes it; times are in UTC."""
    at = datetime.fromtimestamp(min(max(entry.modified_at, FIRST.timestamp()), LAST.timestamp()), UTC)
    info = zipfile.ZipInfo(entry.name, (at.year, at.month, at.day, at.hour, at.minute, at.second))
    info.file_size = entry.size  # decides whether its own fields are of 64 bits
    info.create_system, info.external_attr = 3, 0o100644 << 16  # a file of Unix
    return info
