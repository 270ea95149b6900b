"""The catalog's tables, and connections to them: one a thread."""

import fcntl
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from index.fault_points import FaultPoint, reach
from index.files import make_folder, sync_folder
from index.schema_upgrades import ARRIVALS, LISTED, RARE, STATE, upgrade
from index.text_index import TEXTS, add_functions

VERSION = 7
BUSY_SECONDS = 30.0

TABLES = f"""
CREATE TABLE images (
  number INTEGER PRIMARY KEY AUTOINCREMENT,  -- order of arrival
  image_id TEXT NOT NULL UNIQUE,
  filename TEXT NOT NULL,
  extension TEXT NOT NULL,
  num_bytes INTEGER NOT NULL,
  added_at REAL NOT NULL,
  taken_at REAL,
  slot INTEGER UNIQUE,                       -- row of the region slab and of every view
  width INTEGER,
  height INTEGER,
  extractor TEXT,
  looks BLOB,                                -- hash of what it looks like, empty where it has none; NULL: not made yet
  attempts INTEGER NOT NULL DEFAULT 0,
  reason TEXT,                               -- of the last failed attempt
  starts INTEGER NOT NULL DEFAULT 0,         -- detections that began, and of which no worker told the end
  failed_at REAL,                            -- set aside
  deleted_at REAL,                           -- tombstone
  erased_at REAL,                            -- when the deletion became final
  {STATE}
);
CREATE INDEX images_state ON images (state, number);
CREATE INDEX images_taken ON images (taken_at);
{LISTED}
CREATE TABLE captions (
  caption_id INTEGER PRIMARY KEY AUTOINCREMENT,
  image INTEGER NOT NULL REFERENCES images (number),
  text TEXT,                                 -- NULL: erased, and the slot stays taken
  slot INTEGER UNIQUE,                       -- row of every view's caption slab, once the picture is ready
  UNIQUE (image, text)
);
CREATE TABLE tags (
  image INTEGER NOT NULL REFERENCES images (number),
  name TEXT NOT NULL,
  value NOT NULL,                            -- no type: 5 stays a number, "5" a text
  PRIMARY KEY (image, name)
) WITHOUT ROWID;
CREATE INDEX tags_value ON tags (name, value, image);
CREATE TABLE jobs (
  job_id TEXT PRIMARY KEY,
  created_at REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE job_images (
  job_id TEXT NOT NULL REFERENCES jobs (job_id),
  image INTEGER NOT NULL REFERENCES images (number),
  PRIMARY KEY (job_id, image)
) WITHOUT ROWID;
CREATE TABLE heartbeats (role TEXT PRIMARY KEY, at REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO counters VALUES ('version', 0);
{ARRIVALS}
{RARE}
{TEXTS};
"""

# What came after version 1 was first released: a catalog of that version may have them or not.
ADDED = """
CREATE TABLE IF NOT EXISTS requested_views (  -- views to be kept up besides those that settings name
  digest TEXT PRIMARY KEY,                   -- of the model
  requested_at REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS region_stores (   -- no row: one store, the folder "regions", whose extractor `images` names
  extractor TEXT PRIMARY KEY,                -- digest
  folder TEXT NOT NULL,                      -- below the data directory
  state TEXT NOT NULL,                       -- see RegionStoreState
  records INTEGER,                           -- leading slots that have a record; NULL: every slot
  timed_from REAL,                           -- when a worker went on with it, at how many records, and the latest:
  timed_records INTEGER,                     -- its speed
  timed_to REAL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS collection (      -- one row, made at random: which collection of pictures this is
  only INTEGER PRIMARY KEY CHECK (only = 1),
  id TEXT NOT NULL,                          -- in names that several collections may share, as of keys in Redis
  secret BLOB NOT NULL                       -- signs what is kept outside the data directory
);
CREATE TABLE IF NOT EXISTS blank_regions (   -- slots whose record holds no regions, since there was no picture to read
  extractor TEXT NOT NULL,
  slot INTEGER NOT NULL,
  reason TEXT,                               -- NULL: features alone are known, of another extractor
  at REAL NOT NULL,                          -- when that was found; 0: the picture was sent again since
  PRIMARY KEY (extractor, slot)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS decided_fields (  -- of pictures without regions yet, in which their files have no say
  image INTEGER NOT NULL REFERENCES images (number),
  field TEXT NOT NULL,                       -- see decided_fields.py
  PRIMARY KEY (image, field)
) WITHOUT ROWID;
"""


FIRST_COLLECTION = "INSERT INTO collection VALUES (1, lower(hex(randomblob(8))), randomblob(32));"


class UnknownSchema(Exception):
    """The file is a catalog of a newer version, or none; the message says what to do."""


class DamagedCatalog(Exception):
    """The file cannot be read as a catalog any more; the message says what to do."""

    def __init__(self, path: Path, fault: object) -> None:
        super().__init__(
            f"{path} is damaged ({fault}): stop every process of this data directory, keep a copy of it, and restore a"
            " snapshot or backup"
        )


class MissingCatalog(Exception):
    """The file that was opened is not there any more, or another collection's lies in its place; the message says what
    to do."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} is not there any more, or is another collection's: mount its disk again, or move the data"
            " directory back; nothing is taken in meanwhile"
        )


class ReadOnlyCatalog(Exception):
    """The file can be read at most, and more is asked for; the message says what to do."""


class FileIdentity(NamedTuple):
    """The numbers by which a system tells files apart."""

    device: int
    file: int


class Connection(sqlite3.Connection):
    """Can be referred to weakly, so that a thread's connection ends with the thread."""


class Database:
    """Connections to one catalog file. Safe from many threads and processes."""

    def __init__(self, path: Path) -> None:
        """Open the file, creating it when absent; where it may not be written, for reading alone.

        UnknownSchema, DamagedCatalog, ReadOnlyCatalog. Whatever reads or writes later raises MissingCatalog while the
        file is away.
        """
        self.path = path
        self._file: FileIdentity | None = None
        """The file that was opened; None until one is."""
        self._collection = ""
        self.read_only = not is_writable(path)
        self._local = threading.local()
        self._opened: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._opening = threading.Lock()
        # Threads take turns here; SQLite lets processes try again and again, which is neither fair nor quick.
        self._turn = threading.Lock()
        if self.read_only:
            self._open_for_reading()
            return
        make_folder(path.parent, private=True)
        # Two processes starting at once: SQLite does not wait when the journal mode is being changed.
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            with self._telling_damage():
                prepare(self.connection(), path)
            sync_folder(path.parent)
            self._keep_identity()
        except BaseException:
            self.close()
            raise
        finally:
            os.close(folder)

    def _open_for_reading(self) -> None:
        try:
            with self._telling_damage():
                check_version(self.connection(), self.path)
            self._keep_identity()
        except sqlite3.OperationalError as fault:
            self.close()
            raise ReadOnlyCatalog(
                f"{self.path} cannot be read where it may not be written ({fault}): there is none, or it holds changes"
                " that were not folded into the file; open it once where it may be written, with `regard doctor`"
            ) from fault
        except BaseException:
            self.close()
            raise

    @contextmanager
    def _telling_damage(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as fault:
            if type(fault) is sqlite3.DatabaseError:  # its subclasses are mistakes, or a lock, or the disk
                raise DamagedCatalog(self.path, fault) from fault
            raise

    def _keep_identity(self) -> None:
        connection = self.connection()
        self._collection = connection.execute("SELECT id FROM collection").fetchone()["id"]
        self._file = self._local.file = file_identity(self.path)

    def connection(self) -> Connection:
        """The calling thread's connection. MissingCatalog while the file that was opened is away: without a disk that
        was mounted, another would be made in its place, and hidden once the disk is back."""
        found: Connection | None = getattr(self._local, "connection", None)
        if self._file is None:  # it is being opened
            return found or self._connect()
        file = file_identity(self.path)
        if file is None:
            raise MissingCatalog(self.path)
        if found is None or self._local.file != file:
            found = self._connect()
            if file != self._file:  # moved back or mounted again, it may be known by another number
                self._check_collection(found)
                self._file = file
            self._local.file = file
        return found

    def _connect(self) -> Connection:
        address = reading_address(self.path) if self.read_only else str(self.path)
        if self._file is not None and not self.read_only:
            address = f"{self.path.resolve().as_uri()}?mode=rw"  # which makes none
        # Used by this thread alone, closed perhaps by another.
        made = sqlite3.connect(
            address,
            uri=self.read_only or self._file is not None,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            factory=Connection,
        )
        made.execute("PRAGMA synchronous = FULL")
        made.execute("PRAGMA foreign_keys = ON")
        made.execute("PRAGMA secure_delete = ON")  # what is erased is overwritten, not merely let go
        made.row_factory = sqlite3.Row
        add_functions(made)
        self._local.connection = made
        with self._opening:
            self._opened.add(made)
        return made

    def _check_collection(self, connection: Connection) -> None:
        try:
            found = connection.execute("SELECT id FROM collection").fetchone()["id"]
        except sqlite3.OperationalError:
            found = None
        if found != self._collection:
            self._local.connection = None
            raise MissingCatalog(self.path)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One consistent look: everything read inside belongs to the same moment."""
        connection = self.connection()
        with self._telling_damage():
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("COMMIT")

    def read_number(self, sql: str) -> int:
        """The number that one statement gives, which is consistent without a transaction."""
        with self._telling_damage():
            return int(self.connection().execute(sql).fetchone()[0])

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One durable change: committed whole at the end, or not at all when anything is raised."""
        if self.read_only:
            raise ReadOnlyCatalog(f"{self.path} may not be written here: nothing can be changed")
        connection = self.connection()
        with self._turn, self._telling_damage():
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                reach(FaultPoint.BEFORE_COMMIT)
                connection.execute("COMMIT")
                reach(FaultPoint.AFTER_COMMIT)
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def changing(self) -> Iterator[Connection]:
        """A durable change of what is seen, which the catalog's version counts."""
        with self.writing() as connection:
            yield connection
            connection.execute("UPDATE counters SET value = value + 1 WHERE name = 'version'")

    def close(self) -> None:
        """Close the connections of all threads; the last one folds the WAL into the file."""
        with self._opening:
            for connection in list(self._opened):
                connection.close()


def file_identity(path: Path) -> FileIdentity | None:
    """The file that lies at a path, whatever it is called; None where none does."""
    try:
        status = path.stat()
    except OSError:
        return None
    return FileIdentity(status.st_dev, status.st_ino)


def is_writable(path: Path) -> bool:
    """Whether the file may be written, and its folder: SQLite keeps others beside it. True where nothing is there."""
    return all(os.access(one, os.W_OK) for one in (path.parent, path) if one.exists())


def reading_address(path: Path) -> str:
    """The address by which SQLite reads the file and writes nothing beside it."""
    address = f"{path.resolve().as_uri()}?mode=ro"
    beside = [path.with_name(f"{path.name}{end}") for end in ("-shm", "-wal")]
    # With these files there may be a writer, whose changes SQLite finds by them; without, it would have to make them.
    return address if any(file.exists() for file in beside) else f"{address}&immutable=1"


def check_version(connection: sqlite3.Connection, path: Path) -> int:
    """The version of a catalog that can be read as it is. UnknownSchema, ReadOnlyCatalog."""
    found = found_version(connection, path)
    if found < VERSION:
        raise ReadOnlyCatalog(
            f"{path} has schema {found} and must be brought to schema {VERSION} before it can be read: open it once"
            " where it may be written, with `regard doctor`"
        )
    return found


def found_version(connection: sqlite3.Connection, path: Path) -> int:
    """The schema version of the file, 0 for an empty one; UnknownSchema for a newer one, or none of ours."""
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if found > VERSION:
        raise UnknownSchema(
            f"{path} was written by a newer version of Regard (schema {found}, this one reads up to {VERSION}): install"
            " that version, or use a snapshot or backup from before the upgrade"
        )
    if found < 0 or (found == 0 and tables):
        raise UnknownSchema(f"{path} is another program's database, and no catalog: name another data directory")
    return int(found)


def prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Create the tables in an empty file, bring an older one up to date; UnknownSchema for a newer one, or none."""
    found = found_version(connection, path)
    connection.execute("PRAGMA journal_mode = WAL")
    if not found:
        made = f"{TABLES} {ADDED} {FIRST_COLLECTION}"
        connection.executescript(f"BEGIN IMMEDIATE; {made} PRAGMA user_version = {VERSION}; COMMIT;")
    elif found < VERSION:
        connection.executescript(ADDED)
        upgrade(connection, found, VERSION)
