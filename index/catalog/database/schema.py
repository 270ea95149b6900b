"""The catalog's tables, and how a file gets them."""

import sqlite3
from pathlib import Path

from index.catalog.database.faults import ReadOnlyCatalog, UnknownSchema
from index.catalog.database.schema_upgrades import ARRIVALS, DECIDED, LISTED, RARE, STATE, upgrade
from index.catalog.text_index import TEXTS

VERSION = 11

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
  looks BLOB,                                -- perceptual hash, empty for a plain picture; NULL: not computed yet
  attempts INTEGER NOT NULL DEFAULT 0,
  reason TEXT,                               -- why the last attempt failed
  starts INTEGER NOT NULL DEFAULT 0,         -- detections that began and are not known to have ended
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
  text TEXT,                                 -- NULL: erased; the slot stays occupied
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
{DECIDED}
{RARE}
{TEXTS};
"""

# Tables added after version 1 was first released: a catalog of that version may lack them.
ADDED = """
CREATE TABLE IF NOT EXISTS requested_views (  -- views to keep up to date besides those of the settings
  digest TEXT PRIMARY KEY,                   -- of the model
  requested_at REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS region_stores (   -- no row: one store, the folder "regions", whose extractor `images` names
  extractor TEXT PRIMARY KEY,                -- digest
  folder TEXT NOT NULL,                      -- below the data directory
  state TEXT NOT NULL,                       -- see RegionStoreState
  records INTEGER,                           -- leading slots that have a record; NULL: every slot
  timed_from REAL,                           -- when a worker resumed it, with how many records, and the latest write:
  timed_records INTEGER,                     -- these give its speed
  timed_to REAL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS collection (      -- one row of random values: the collection's identity
  only INTEGER PRIMARY KEY CHECK (only = 1),
  id TEXT NOT NULL,                          -- part of shared names, such as keys in Redis
  secret BLOB NOT NULL                       -- signs data kept outside the data directory
);
CREATE TABLE IF NOT EXISTS blank_regions (   -- slots whose record has no regions, for want of a readable picture
  extractor TEXT NOT NULL,
  slot INTEGER NOT NULL,
  reason TEXT,                               -- NULL: only another extractor's features are known
  at REAL NOT NULL,                          -- when it was found; 0: the picture is back since
  PRIMARY KEY (extractor, slot)
) WITHOUT ROWID;
"""


FIRST_COLLECTION = "INSERT INTO collection VALUES (1, lower(hex(randomblob(8))), randomblob(32));"


def check_version(connection: sqlite3.Connection, path: Path) -> int:
    """The version of a catalog that can be read without an upgrade. Raises UnknownSchema for a newer one,
    ReadOnlyCatalog for an older one."""
    version = found_version(connection, path)
    if version < VERSION:
        raise ReadOnlyCatalog(
            f"{path} has schema {version} and must be brought to schema {VERSION} before it can be read: open it once"
            " where it may be written, with `regard serve`"
        )
    return version


def found_version(connection: sqlite3.Connection, path: Path) -> int:
    """The schema version of the file, 0 for an empty one; UnknownSchema for a newer one, or another program's file."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if version > VERSION:
        raise UnknownSchema(
            f"{path} was written by a newer version of Regard (schema {version}, this one reads up to {VERSION}):"
            " install that version, or use a snapshot or backup from before the upgrade"
        )
    if version < 0 or (version == 0 and tables):
        raise UnknownSchema(f"{path} is another program's database, and no catalog: name another data directory")
    return int(version)


def prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Create the tables in an empty file, or upgrade an older one; UnknownSchema for a newer or foreign one."""
    version = found_version(connection, path)
    connection.execute("PRAGMA journal_mode = WAL")
    if not version:
        statements = f"{TABLES} {ADDED} {FIRST_COLLECTION}"
        connection.executescript(f"BEGIN IMMEDIATE; {statements} PRAGMA user_version = {VERSION}; COMMIT;")
    elif version < VERSION:
        connection.executescript(ADDED)
        upgrade(connection, version, VERSION)
