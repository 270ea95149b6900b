"""The journal of a replica: every change of its shard in order, so that a sibling that was away can catch up from it.

Each entry is chained to the one before by a checksum: two replicas with the same position have made the same changes.
`journal_erasure.py` overwrites what entries say of pictures that were erased.
"""

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from index.fault_points import FaultPoint, reach

BUSY_S = 30.0
CHECKED_AT_A_TIME = 256


class Position(NamedTuple):
    """The place a replica has reached in the journal: the number of its last entry, and a checksum of all so far."""

    sequence: int
    checksum: str


ORIGIN = Position(0, "")


@dataclass(frozen=True)
class JournalEntry:
    """A change as it is written down; `before` is the checksum that it follows."""

    sequence: int
    before: str
    content: bytes

    @property
    def position(self) -> Position:
        """The position after it; an overwritten content begins with the checksum that it keeps."""
        if self.content == _overwritten(self.content[:64], self.content[128:]):
            return Position(self.sequence, self.content[:64].decode())
        return Position(self.sequence, sha256(self.before.encode() + self.content).hexdigest())

    def overwritten(self, content: bytes) -> bytes:
        """Another content, for the same position."""
        return _overwritten(self.position.checksum.encode(), content)


def _overwritten(checksum: bytes, content: bytes) -> bytes:
    return checksum + sha256(checksum + content).hexdigest().encode() + content


class HiddenPicture(NamedTuple):
    """A picture that nobody could see after change `sequence`, and its number in the catalog; 0 where it has none."""

    sequence: int
    image_id: str
    number: int


class Intent(NamedTuple):
    """A change that was begun: its entry's content, and what it is made upon."""

    content: bytes
    state: bytes


class Diverged(Exception):
    """A replica made changes that its siblings did not: it is made anew from them (`regard cluster repair`)."""


class Gap(Exception):
    """A change comes before another one that it follows."""


class Journal:
    """Entries in a SQLite file, durable when a call returns. Safe from many threads."""

    def __init__(self, path: Path) -> None:
        """Open or create it."""
        self._lock = threading.Lock()
        self._db = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute("PRAGMA secure_delete = ON")  # what is deleted is overwritten, not merely freed
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS entries"
            " (sequence INTEGER PRIMARY KEY, before TEXT NOT NULL, checksum TEXT NOT NULL, content BLOB NOT NULL)"
        )
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS intents"
            " (only INTEGER PRIMARY KEY CHECK (only = 1), content BLOB NOT NULL, state BLOB NOT NULL)"
        )
        self._db.execute("CREATE TABLE IF NOT EXISTS hidden (sequence INTEGER, image_id TEXT, number INTEGER)")
        self._db.execute("CREATE TABLE IF NOT EXISTS placement (num_shards INTEGER NOT NULL)")
        self._placed_among = int(self._db.execute("SELECT max(num_shards) FROM placement").fetchone()[0] or 0)
        last = self._db.execute("SELECT sequence, checksum FROM entries ORDER BY sequence DESC LIMIT 1").fetchone()
        self._position = ORIGIN if last is None else Position(*last)
        if last is None:
            self._db.execute("PRAGMA user_version = 1")

    def position(self) -> Position:
        """The position after the last entry; searches look at it, and wait for no disk."""
        return self._position

    def position_at(self, sequence: int) -> Position:
        """The position after the entry of that number; ORIGIN where there is none."""
        sql = "SELECT sequence, checksum FROM entries WHERE sequence = ?"
        with self._locked() as db:
            found = db.execute(sql, [sequence]).fetchone()
        return ORIGIN if found is None else Position(*found)

    def follows(self, entry: JournalEntry) -> bool:
        """Whether the entry is the next one; False where it is written down already.

        Raises Gap where others come before it, Diverged where those here are not those that it follows."""
        here = self.position()
        if entry.sequence > here.sequence + 1:
            raise Gap(f"entry {entry.sequence} comes after {here.sequence}")
        if entry.sequence <= here.sequence:
            if self.position_at(entry.sequence) != entry.position:
                raise Diverged(f"entry {entry.sequence} is another one here")
            return False
        if entry.before != here.checksum:
            raise Diverged(f"entry {entry.sequence} follows other changes than those made here")
        return True

    def intend(self, entry: JournalEntry, state: bytes) -> None:
        """Write down that an entry's change is about to be made, and the state that it is made upon."""
        with self._locked() as db:
            db.execute("INSERT OR REPLACE INTO intents VALUES (1, ?, ?)", [entry.content, state])

    def intent(self) -> Intent | None:
        """The change that was begun, and neither written down nor given up."""
        with self._locked() as db:
            found = db.execute("SELECT content, state FROM intents").fetchone()
        return None if found is None else Intent(*found)

    def give_up(self) -> None:
        """Forget the change that was begun: it is not made, or taken back."""
        with self._locked() as db:
            with _transaction(db):
                db.execute("DELETE FROM intents")
                db.execute("INSERT INTO hidden VALUES (0, '', 0)")  # so `forget` folds again
            _fold_log(db)

    def append(self, entry: JournalEntry, hidden: Mapping[str, int] | None = None) -> None:
        """Write down the next entry, whose change was made; `hidden`: id -> number of a HiddenPicture."""
        position = entry.position
        row = [entry.sequence, entry.before, position.checksum, entry.content]
        with self._locked() as db:
            with _transaction(db):
                db.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", row)
                pictures = [(entry.sequence, *picture) for picture in (hidden or {}).items()]
                db.executemany("INSERT INTO hidden VALUES (?, ?, ?)", pictures)
                db.execute("DELETE FROM intents")
            self._position = position

    def placed_among(self) -> int:
        """The most shards that pictures were let go to; 0 where none was."""
        return self._placed_among

    def note_placement(self, num_shards: int) -> None:
        """Pictures are let go to any of `num_shards` shards from now on."""
        if num_shards <= self._placed_among:
            return
        with self._locked() as db:
            db.execute("INSERT INTO placement VALUES (?)", [num_shards])
            self._placed_among = num_shards

    def after(self, sequence: int, limit: int) -> list[JournalEntry]:
        """At most `limit` entries that follow the one of number `sequence`."""
        sql = "SELECT sequence, before, content FROM entries WHERE sequence > ? ORDER BY sequence LIMIT ?"
        with self._locked() as db:
            return [JournalEntry(*row) for row in db.execute(sql, [sequence, limit])]

    def hidden(self) -> list[HiddenPicture]:
        """Hidden pictures, in the order of changes."""
        with self._locked() as db:
            return [HiddenPicture(*row) for row in db.execute("SELECT * FROM hidden ORDER BY sequence")]

    def all_listed(self) -> bool:
        """Whether `hidden` is complete, unlike in earlier releases."""
        with self._locked() as db:
            return bool(db.execute("PRAGMA user_version").fetchone()[0])

    def list_hidden(self, pictures: Iterable[tuple[int, str, int]], last: bool) -> None:
        """Add hidden pictures; with `last`, all are listed."""
        with self._locked() as db, _transaction(db):
            db.executemany("INSERT INTO hidden VALUES (?, ?, ?)", pictures)
            db.execute(f"PRAGMA user_version = {last:d}")

    def overwrite(self, contents: Mapping[int, bytes]) -> None:
        """Replace the contents of entries, by number."""
        with self._locked() as db, _transaction(db):
            rows = [(content, sequence) for sequence, content in contents.items()]
            db.executemany("UPDATE entries SET content = ? WHERE sequence = ?", rows)

    def forget(self, pictures: Iterable[HiddenPicture]) -> None:
        """Forget hidden pictures, unless the log still holds former contents."""
        with self._locked() as db:
            if _fold_log(db):
                with _transaction(db):
                    db.executemany("DELETE FROM hidden WHERE (sequence, image_id, number) = (?, ?, ?)", pictures)

    def check(self) -> None:
        """Look at every entry. Diverged where one does not follow the one before it."""
        at, entries = ORIGIN, self.after(0, CHECKED_AT_A_TIME)
        while entries:
            for entry in entries:
                stored = self.position_at(entry.sequence)
                if (entry.sequence, entry.before, stored) != (at.sequence + 1, at.checksum, entry.position):
                    raise Diverged(f"entry {entry.sequence} is damaged, or does not follow {at.sequence}")
                at = stored
            entries = self.after(at.sequence, CHECKED_AT_A_TIME)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @contextmanager
    def _locked(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            yield self._db


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    """All of the block, or nothing of it."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        reach(FaultPoint.BEFORE_COMMIT)
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")
    reach(FaultPoint.AFTER_COMMIT)


def _fold_log(db: sqlite3.Connection) -> bool:
    """Empty the write-ahead log, which holds former pages; False while another program reads."""
    db.execute("PRAGMA busy_timeout = 0")  # changes wait
    try:
        return not db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    finally:
        db.execute(f"PRAGMA busy_timeout = {1000 * BUSY_S:.0f}")
