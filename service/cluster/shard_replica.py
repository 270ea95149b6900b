"""One copy of a shard: a data directory, its journal, and the changes that are made to both.

A change is made first and written down after: a kill in between leaves a change that is made once more, which does no
harm, and never an entry without its change.
"""

import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

from index.catalog import Catalog
from index.records import PictureChange
from service.cluster.journal import ORIGIN, Diverged, Journal, JournalEntry, Position
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
from service.ingest.picture_store import LocalPictureStore, ReceivedPicture
from service.storage.incoming import upload_folder
from service.storage.originals import Originals, image_id_of

ENTRIES_AT_A_TIME = 32

Files = Mapping[str, bytes]
"""Id -> the bytes of a picture."""


class Sibling(Protocol):
    """Another replica of the same shard, which is caught up from."""

    def entries_after(self, sequence: int, limit: int) -> Sequence[JournalEntry]:
        """The entries of the journal after a number."""

    def originals_of(self, entry: JournalEntry) -> Files:
        """The bytes of the pictures that an entry takes in, as far as they are still there."""

    def position_at(self, sequence: int) -> Position:
        """The position after an entry."""


class ShardReplica:
    """Makes changes in their order. Safe from many threads."""

    def __init__(self, catalog: Catalog, originals: Originals, journal: Journal, wake: Callable[[str], None]) -> None:
        """`wake` tells a worker that there is something to do."""
        self._catalog, self._originals, self._journal, self._wake = catalog, originals, journal, wake
        self._store = LocalPictureStore(catalog, originals)
        self._changing = threading.Lock()

    def position(self) -> Position:
        """The place that this replica has reached in the journal."""
        return self._journal.position()

    def position_at(self, sequence: int) -> Position:
        """The position after an entry."""
        return ORIGIN if sequence == 0 else self._journal.position_at(sequence)

    def entries_after(self, sequence: int, limit: int) -> Sequence[JournalEntry]:
        """Entries after one, for a sibling that catches up."""
        return self._journal.after(sequence, limit)

    def originals_of(self, entry: JournalEntry) -> Files:
        """The bytes of the pictures that an entry takes in, as far as they are still there."""
        operation = read_operation(entry.content)
        if not isinstance(operation, TakeIn):
            return {}
        paths = {one.image_id: self._originals.path(one.image_id, one.extension) for one in operation.pictures}
        return {image_id: path.read_bytes() for image_id, path in paths.items() if path.is_file()}

    def apply(self, entry: JournalEntry, files: Files) -> Any:
        """Make the change of an entry and write it down; what the operation returns, None where it was made before.

        Gap, Diverged; whatever the change itself raises, which then is not written down.
        """
        with self._changing:
            if not self._journal.follows(entry):
                return None
            outcome = self._make(read_operation(entry.content), files)
            self._journal.append(entry)
        return outcome

    def catch_up(self, sibling: Sibling) -> Position:
        """Make the changes that a sibling made and this one did not. Diverged where neither follows the other."""
        here = self.position()
        if sibling.position_at(here.sequence) != here:
            raise Diverged(f"entry {here.sequence} is another one in the sibling")
        while entries := sibling.entries_after(self.position().sequence, ENTRIES_AT_A_TIME):
            for entry in entries:
                self.apply(entry, sibling.originals_of(entry))
        return self.position()

    def _make(self, operation: Operation, files: Files) -> Any:
        outcome: Any = None
        match operation:
            case TakeIn():
                outcome = self._take_in(operation, files)
            case Delete(image_id=image_id, now=now):
                outcome = self._catalog.delete(image_id, now)
            case Release(image_id=image_id, since=since):
                outcome = self._release(image_id, since)
            case Restore(image_id=image_id, kept_since=kept_since):
                outcome = self._catalog.restore(image_id, kept_since)
            case Edit(image_id=image_id, changes=changes):
                outcome = self._catalog.change(image_id, PictureChange(**changes))
            case Retry(image_id=image_id, job_id=job_id, now=now):
                outcome = self._catalog.retry(image_id, now, job_id)
            case BuildView(digest=digest, now=now):
                self._catalog.request_view(digest, now)
        self._wake(operation.kind)
        return outcome

    def _release(self, image_id: str, since: int) -> bool:
        """Delete a picture so long ago that nothing of it is kept, unless it was changed; all replicas decide alike."""
        while entries := self._journal.after(since, ENTRIES_AT_A_TIME):
            if any(concerns(read_operation(entry.content), image_id) for entry in entries):
                return False
            since = entries[-1].sequence
        self._catalog.delete(image_id, LONG_AGO)
        return True

    def _take_in(self, operation: TakeIn, files: Files) -> list[bool]:
        """Take in the pictures whose bytes came; the others were erased before this replica heard of them."""
        for image_id, content in files.items():
            if image_id_of(sha256(content).hexdigest()) != image_id:
                raise ValueError(f"the bytes of picture {image_id} were damaged on their way")
        with upload_folder(self._originals.incoming) as folder:
            received = []
            for picture in operation.pictures:
                if picture.image_id in files:
                    path = folder / secrets.token_hex(8)
                    path.write_bytes(files[picture.image_id])
                    received.append(ReceivedPicture(path, picture))
            if not received:
                return []
            taken = self._store.take_in(received, operation.now, operation.kept_since, operation.job_id)
        return list(taken.duplicates)


def opened_replica(root: Path, catalog: Catalog, originals: Originals, wake: Callable[[str], None]) -> ShardReplica:
    """The replica in a data directory."""
    return ShardReplica(catalog, originals, Journal(root / "journal.sqlite"), wake)
