"""A replica of a shard: a data directory, its journal, and the changes of both.

A change is announced in the journal, made, and then recorded. After a kill in between, the announcement serves to undo
the change when the directory is opened again: it was not acknowledged, and siblings may not have it.
"""

import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

from index.catalog.catalog import Catalog
from index.records import PictureChange
from service.cluster.operations import (
    LONG_AGO,
    BuildView,
    Delete,
    Edit,
    Operation,
    Release,
    Restore,
    Retry,
    TakeIn,
    concerns,
    read_operation,
)
from service.cluster.shards.journal import ORIGIN, Diverged, Journal, JournalEntry, Position
from service.cluster.shards.journal_erasure import erase_descriptions
from service.cluster.shards.undo import state_before, take_back, touched_ids
from service.ingest.picture_store import FileOutcome, LocalPictureStore, ReceivedPicture
from service.storage.incoming import upload_folder
from service.storage.originals import Originals, image_id_of
from service.storage.regions.found_regions import FoundRegions, regions_are_whole

ENTRIES_AT_A_TIME = 32
JOURNAL = "journal.sqlite"
REGIONS = ".regions"

Files = Mapping[str, bytes]
"""Id -> the bytes of a picture; and id + REGIONS -> its regions (`found_regions.py`), where they are found."""


class Sibling(Protocol):
    """Another replica of the same shard, to catch up from."""

    def entries_after(self, sequence: int, limit: int) -> Sequence[JournalEntry]:
        """The journal's entries after a number."""

    def originals_of(self, entry: JournalEntry) -> Files:
        """The bytes of the pictures that an entry takes in, as far as they are still there."""

    def position_at(self, sequence: int) -> Position:
        """The position after an entry."""


class ShardReplica:
    """Makes changes in order. Thread-safe."""

    def __init__(
        self,
        catalog: Catalog,
        originals: Originals,
        journal: Journal,
        found: FoundRegions,
        wake: Callable[[], None],
        regions_of: Callable[[str], bytes | None] = lambda image_id: None,
    ) -> None:
        """`wake` wakes the worker. `regions_of` serializes the stored regions of a picture.

        A change that was begun and not recorded is undone.
        """
        self._catalog, self._originals, self._journal, self._wake = catalog, originals, journal, wake
        self._found, self._regions_of = found, regions_of
        self._store = LocalPictureStore(catalog, originals)
        self._changing = threading.Lock()
        self._needs_undo = True  # whether an interrupted change may have to be undone
        self.position()

    def position(self) -> Position:
        """The place that this replica has reached in the journal."""
        if self._needs_undo:
            with self._changing:
                self._take_back()
        return self._journal.position()

    def position_at(self, sequence: int) -> Position:
        """The position after an entry."""
        return ORIGIN if sequence == 0 else self._journal.position_at(sequence)

    def placed_among(self) -> int:
        """The largest number of shards among which this replica released pictures; 0 where it released none."""
        return self._journal.placed_among()

    def entries_after(self, sequence: int, limit: int) -> Sequence[JournalEntry]:
        """The journal's entries after a number, for a sibling that catches up."""
        return self._journal.after(sequence, limit)

    def originals_of(self, entry: JournalEntry) -> Files:
        """The bytes of the pictures that an entry takes in, and their regions, as far as they are there."""
        operation = read_operation(entry.content)
        if not isinstance(operation, TakeIn):
            return {}
        kinds = {picture.image_id: picture.extension for picture in operation.pictures}
        kinds |= self._catalog.identities.extensions(list(kinds))  # known bytes keep the extension of their first file
        paths = {image_id: self._originals.path(image_id, kind) for image_id, kind in kinds.items()}
        originals = {image_id: path.read_bytes() for image_id, path in paths.items() if path.is_file()}
        regions = {image_id + REGIONS: self._regions_of(image_id) for image_id in originals}
        return originals | {name: serialised for name, serialised in regions.items() if serialised is not None}

    def apply(self, entry: JournalEntry, files: Files, bounded: bool = True) -> Any:
        """Make the change of an entry and record it. Returns the operation's result, None where it was made before.

        Without `bounded`, captions and tags are not limited, as for a sibling's change. Raises Gap or Diverged where
        the entry does not follow the changes made here, and whatever the change itself raises, which is then undone and
        not recorded.
        """
        with self._changing:
            self._take_back()
            if not self._journal.follows(entry):
                return None
            operation = read_operation(entry.content)
            self._journal.intend(entry, state_before(self._catalog, operation))
            try:
                outcome = self._make(operation, files, bounded)
                self._journal.append(entry, self._catalog.erasures.hidden(touched_ids(operation)))
            except Exception:
                self._needs_undo = True
                self._take_back()
                raise
        return outcome

    def erase_descriptions(self) -> None:
        """Overwrite what the journal says of erased pictures, also by earlier releases."""
        at = 0
        while not self._journal.all_listed():
            entries = self._journal.after(at, ENTRIES_AT_A_TIME)
            last = {name: one.sequence for one in entries for name in touched_ids(read_operation(one.content))}
            with self.paused():
                hidden = self._catalog.erasures.hidden(list(last))
                self._journal.list_hidden([(last[name], name, hidden[name]) for name in hidden], not entries)
            at += len(entries)
        erase_descriptions(self._journal, self._catalog.erasures)

    def _take_back(self) -> None:
        """Undo an interrupted change, if there is one; the caller holds the lock."""
        if self._needs_undo:
            if (intent := self._journal.intent()) is not None:
                take_back(self._catalog, read_operation(intent.content), intent.state)
                self._journal.give_up()
            self._needs_undo = False

    @contextmanager
    def paused(self) -> Iterator[None]:
        """A block without changes, in which catalog and journal are of one moment."""
        with self._changing:
            self._take_back()
            yield

    def catch_up(self, sibling: Sibling) -> Position:
        """Make a sibling's changes that are missing here. Returns the position. Diverged where the journals differ."""
        here = self.position()
        if sibling.position_at(here.sequence) != here:
            raise Diverged(f"entry {here.sequence} is another one in the sibling")
        while entries := sibling.entries_after(self.position().sequence, ENTRIES_AT_A_TIME):
            for entry in entries:
                self.apply(entry, sibling.originals_of(entry), bounded=False)
        return self.position()

    def _make(self, operation: Operation, files: Files, bounded: bool) -> Any:
        outcome: Any = None
        match operation:
            case TakeIn():
                outcome = self._take_in(operation, files, bounded and operation.bounded)
            case Delete(image_id=image_id, now=now):
                outcome = self._catalog.delete(image_id, now)
            case Release(image_id=image_id, since=since, num_shards=num_shards):
                outcome = self._release(image_id, since, num_shards)
            case Restore(image_id=image_id, kept_since=kept_since):
                outcome = self._catalog.restore(image_id, kept_since)
            case Edit(image_id=image_id, changes=changes):
                change = PictureChange(**changes)
                outcome = self._catalog.change(image_id, change, bounded and operation.bounded)
            case Retry(image_id=image_id, job_id=job_id, now=now):
                outcome = self._catalog.queue.retry(image_id, now, job_id)
            case BuildView(digest=digest, now=now):
                self._catalog.processes.request_view(digest, now)
        self._wake()
        return outcome

    def _release(self, image_id: str, since: int, num_shards: int) -> bool:
        """Release a picture: delete it without a grace period, unless it was changed. All replicas decide alike."""
        while entries := self._journal.after(since, ENTRIES_AT_A_TIME):
            if any(concerns(read_operation(entry.content), image_id) for entry in entries):
                return False
            since = entries[-1].sequence
        self._journal.note_placement(num_shards)  # first, so that callers who do not find it learn why
        self._catalog.delete(image_id, LONG_AGO)
        return True

    def _take_in(self, operation: TakeIn, files: Files, bounded: bool) -> list[FileOutcome]:
        """Ingest the pictures whose bytes came; the others were erased before this replica received the change."""
        if damaged := next((name for name, content in files.items() if not came_whole(name, content)), None):
            raise ValueError(f"the bytes of picture {damaged} were damaged on their way")
        with upload_folder(self._originals.incoming) as folder, self._originals.adding():
            self._keep_regions(operation, files)
            received = []
            for picture in operation.pictures:
                if picture.image_id in files:
                    path = folder / secrets.token_hex(8)
                    path.write_bytes(files[picture.image_id])
                    received.append(ReceivedPicture(path, picture))
            if not received:
                return []
            taken = self._store.take_all_in(received, operation.now, operation.kept_since, operation.job_id, bounded)
        return list(taken.outcomes)

    def _keep_regions(self, operation: TakeIn, files: Files) -> None:
        """Store regions that came with pictures first, since the worker looks for them once a picture is committed."""
        known = self._catalog.known_ids([picture.image_id for picture in operation.pictures])
        for picture in operation.pictures:
            serialised = files.get(picture.image_id + REGIONS)
            if serialised is not None and picture.image_id in files and picture.image_id not in known:
                self._found.put(picture.image_id, serialised)


def came_whole(name: str, content: bytes) -> bool:
    """Whether an item of Files arrived undamaged."""
    if name.endswith(REGIONS):
        return regions_are_whole(content)
    return image_id_of(sha256(content).hexdigest()) == name


def opened_replica(
    root: Path,
    catalog: Catalog,
    originals: Originals,
    wake: Callable[[], None],
    regions_of: Callable[[str], bytes | None],
) -> ShardReplica:
    """The replica in a data directory."""
    return ShardReplica(catalog, originals, Journal(root / JOURNAL), FoundRegions(root), wake, regions_of)
