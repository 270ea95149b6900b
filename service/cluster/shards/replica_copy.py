"""A replica built from its sibling: a copy of the sibling's directory at one moment, read in parts and verified.

The sibling continues to answer and, except while its catalog and journal are copied, to change. Its copy consists of
links, which take no room. The new directory gets its name only once it is complete and verified, so that a killed copy
starts anew.
"""

import logging
import os
import re
import secrets
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, Protocol

from index.catalog.catalog import Catalog
from index.catalog.database.copies import copy_catalog
from index.files import make_folder, sync_folder
from service.cluster.shards.journal import Journal
from service.cluster.shards.replica import JOURNAL, ShardReplica
from service.storage.data_dir import DataDir
from service.storage.snapshots.files import ABOUT, SNAPSHOT_FILE, LinkSink
from service.storage.snapshots.snapshot import copy_into
from service.storage.verification import find_damage

PART_BYTES = 4 * 2**20
TOGETHER_BYTES = 8 * 2**20  # of the parts of one call
TOGETHER = 256
COPY = ".copy-"
ABANDONED_S = 600.0  # without a read, after which a copy is removed

log = logging.getLogger(__name__)


class CopiedFile(NamedTuple):
    """A file of a copy, by its path in the directory."""

    name: str
    size: int


@dataclass(frozen=True)
class CopyListing:
    """A copy that can be read, and its files."""

    name: str
    files: Sequence[CopiedFile]


class CopyPart(NamedTuple):
    """Some bytes of a file."""

    name: str
    offset: int
    length: int


class PartContent(NamedTuple):
    """The bytes of a part, and their SHA-256 as computed by the source."""

    content: bytes
    sha256: str


class CopyDamaged(Exception):
    """A copy differs from its source, and must be made anew."""


class CopySource(Protocol):
    """A sibling to copy."""

    def begin_copy(self) -> CopyListing:
        """Begin a copy of the directory as it is now."""

    def read_copy(self, name: str, parts: Sequence[CopyPart]) -> Sequence[PartContent]:
        """The contents of parts of the copy."""

    def end_copy(self, name: str) -> None:
        """Remove the copy. No error where there is none."""


class DirectoryCopies:
    """The copies of a replica's directory that siblings read. Thread-safe."""

    def __init__(self, data_dir: Path, replica: ShardReplica) -> None:
        """Remove copies that an earlier process left."""
        self._data_dir, self._replica = data_dir, replica
        self._read_at: dict[str, float] = {}  # name of a copy -> time of the last read
        for abandoned in data_dir.parent.glob(f"{data_dir.name}{COPY}*"):
            shutil.rmtree(abandoned, ignore_errors=True)

    def begin_copy(self) -> CopyListing:
        """Link all files into a folder beside the directory; catalog and journal are of one moment."""
        name = secrets.token_hex(8)
        sink = LinkSink(self._folder(name))

        def copy_paused(source: Path, target: Path) -> None:
            with self._replica.paused():
                copy_catalog(source, target)
                copy_catalog(self._data_dir / JOURNAL, self._folder(name) / JOURNAL)

        try:
            copy_into(DataDir(self._data_dir), sink, time.time(), copied_catalog=copy_paused)
        except BaseException:
            sink.discard()
            raise
        self._read_at[name] = time.monotonic()
        self._watch(name)
        return CopyListing(name, list(_listed(self._folder(name), sink)))

    def _watch(self, name: str) -> None:
        """Remove the copy once nobody has read it for a while, since its links keep deleted files."""
        timer = threading.Timer(ABANDONED_S, self._end_if_abandoned, [name])
        timer.daemon = True
        timer.start()

    def _end_if_abandoned(self, name: str) -> None:
        read_at = self._read_at.get(name)
        if read_at is None:
            return
        if time.monotonic() - read_at < ABANDONED_S:
            self._watch(name)
            return
        log.warning("a sibling began to copy this replica and did not go on: the copy is removed")
        self.end_copy(name)

    def read_copy(self, name: str, parts: Sequence[CopyPart]) -> Sequence[PartContent]:
        """The contents of parts of a copy. CopyDamaged where a file is shorter."""
        contents = []
        self._read_at[name] = time.monotonic()
        for part in parts:
            with (self._folder(name) / part.name).open("rb") as file:
                file.seek(part.offset)
                content = file.read(part.length)
            if len(content) != part.length:
                raise CopyDamaged(f"{part.name} has no {part.length} bytes at {part.offset}")
            contents.append(PartContent(content, sha256(content).hexdigest()))
        return contents

    def end_copy(self, name: str) -> None:
        """Remove the links."""
        self._read_at.pop(name, None)
        shutil.rmtree(self._folder(name), ignore_errors=True)

    def _folder(self, name: str) -> Path:
        return self._data_dir.with_name(f"{self._data_dir.name}{COPY}{name}")


def _listed(folder: Path, sink: LinkSink) -> Iterator[CopiedFile]:
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent) / name
            relative = path.relative_to(folder).as_posix()
            if relative != ABOUT:
                yield CopiedFile(relative, sink.sizes.get(relative, path.stat().st_size))


def copy_replica(source: CopySource, folder: Path) -> None:
    """Make the new `folder` from a sibling. Raises CopyDamaged, DamagedCatalog, Diverged, and what `source` raises.

    Originals that are missing or damaged in the sibling are logged; so are regions, which a worker finds again.
    """
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    make_folder(partial, private=True)
    listing = source.begin_copy()
    try:
        log.info("%s is made of %d files of a sibling", folder, len(listing.files))
        for group in part_groups(listing.files):
            for part, (content, digest) in zip(group, source.read_copy(listing.name, group), strict=True):
                if len(content) != part.length or sha256(content).hexdigest() != digest:
                    raise CopyDamaged(f"{part.name} was damaged on its way")
                _write_part(partial, part, content)
    finally:
        source.end_copy(listing.name)
    _look_through(partial)
    os.sync()
    partial.rename(folder)
    sync_folder(folder.parent)


def part_groups(files: Sequence[CopiedFile]) -> Iterator[list[CopyPart]]:
    """The parts of all files, in groups that one call may read; an empty file has one part."""
    group: list[CopyPart] = []
    size = 0
    for file in files:
        for offset in range(0, max(1, file.size), PART_BYTES):
            length = min(PART_BYTES, file.size - offset)
            if group and (size + length > TOGETHER_BYTES or len(group) == TOGETHER):
                yield group
                group, size = [], 0
            group.append(CopyPart(file.name, offset, length))
            size += length
    if group:
        yield group


def _write_part(folder: Path, part: CopyPart, content: bytes) -> None:
    if part.name != JOURNAL and re.fullmatch(SNAPSHOT_FILE, part.name) is None:
        raise CopyDamaged(f"{part.name!r} is in no copy")
    path = folder / part.name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("r+b" if path.exists() else "xb") as file:
        file.seek(part.offset)
        file.write(content)


def _look_through(folder: Path) -> None:
    """Verify everything by checksums, and give the catalog a collection id of its own."""
    for damage in find_damage(folder):
        log.error("a copy of a sibling: %s", damage)
    with closing(Journal(folder / JOURNAL)) as journal:
        journal.check()
    with closing(Catalog(DataDir(folder).catalog)) as catalog:
        catalog.renew_collection()
