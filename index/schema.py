"""The catalog's tables, and connections to them: one a thread."""

import fcntl
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from index.files import make_folder, sync_folder

VERSION = 1
BUSY_SECONDS = 30.0

TABLES = """
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
  attempts INTEGER NOT NULL DEFAULT 0,
  reason TEXT,                               -- of the last failed attempt
  failed_at REAL,                            -- set aside
  deleted_at REAL,                           -- tombstone
  state TEXT NOT NULL GENERATED ALWAYS AS (
    CASE WHEN deleted_at IS NOT NULL THEN 'deleted' WHEN slot IS NOT NULL THEN 'ready'
         WHEN failed_at IS NOT NULL THEN 'failed' ELSE 'queued' END) VIRTUAL
);
CREATE INDEX images_state ON images (state, number);
CREATE INDEX images_taken ON images (taken_at);
CREATE TABLE captions (
  caption_id INTEGER PRIMARY KEY AUTOINCREMENT,
  image INTEGER NOT NULL REFERENCES images (number),
  text TEXT NOT NULL,
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
"""


# What came after version 1 was first released, and what an older program may ignore.
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
CREATE TABLE IF NOT EXISTS blank_regions (   -- slots whose record holds no regions, since there was no picture to read
  extractor TEXT NOT NULL,
  slot INTEGER NOT NULL,
  reason TEXT,                               -- NULL: features alone are known, of another extractor
  at REAL NOT NULL,
  PRIMARY KEY (extractor, slot)
) WITHOUT ROWID;
"""


class UnknownSchema(Exception):
    """The file is a catalog of another version, or none."""


class Connection(sqlite3.Connection):
    """Can be referred to weakly, so that a thread's connection ends with the thread."""


class Database:
    """Connections to one catalog file. Safe from many threads and processes."""

    def __init__(self, path: Path) -> None:
        """Open the file, creating it when absent; UnknownSchema when it is not ours to read."""
        self.path = path
        self._local = threading.local()
        self._opened: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._opening = threading.Lock()
        # Threads take turns here; SQLite lets processes try again and again, which is neither fair nor quick.
        self._turn = threading.Lock()
        make_folder(path.parent)
        # Two processes starting at once: SQLite does not wait when the journal mode is being changed.
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            prepare(self.connection(), path)
            sync_folder(path.parent)
        except BaseException:
            self.close()
            raise
        finally:
            os.close(folder)

    def connection(self) -> Connection:
        """The calling thread's connection."""
        found: Connection | None = getattr(self._local, "connection", None)
        if found is None:
            # Used by this thread alone, closed perhaps by another.
            found = sqlite3.connect(
                self.path,
                timeout=BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
                factory=Connection,
            )
            found.execute("PRAGMA synchronous = FULL")
            found.execute("PRAGMA foreign_keys = ON")
            found.row_factory = sqlite3.Row
            self._local.connection = found
            with self._opening:
                self._opened.add(found)
        return found

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One consistent look: everything read inside belongs to the same moment."""
        connection = self.connection()
        connection.execute("BEGIN")
        try:
            yield connection
        finally:
            if connection.in_transaction:
                connection.execute("COMMIT")

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One durable change: committed whole at the end, or not at all when anything is raised."""
        connection = self.connection()
        with self._turn:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close the connections of all threads; the last one folds the WAL into the file."""
        with self._opening:
            for connection in list(self._opened):
                connection.close()


def prepare(connection: Connection, path: Path) -> None:
    """Create the tables in an empty file; UnknownSchema for a file of another version."""
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if found not in (0, VERSION) or (found == 0 and tables):
        raise UnknownSchema(f"{path} has schema version {found}, this version of Regard reads {VERSION}")
    connection.execute("PRAGMA journal_mode = WAL")
    if not found:
        connection.executescript(f"BEGIN IMMEDIATE; {TABLES} PRAGMA user_version = {VERSION}; COMMIT;")
    connection.executescript(ADDED)
