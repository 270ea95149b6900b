"""The check of a catalog file: every page, index and indexed word is verified, and nothing is changed."""

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from index.catalog.database.connection import reading_address
from index.catalog.database.faults import DamagedCatalog, telling_damage
from index.catalog.database.schema import VERSION, found_version
from index.catalog.text_index import TEXT_COLUMNS, TEXTS

MOST_FAULTS = 3  # listed in a message
# The words of both indexes, each with the number of pictures that contain it and of its occurrences.
INDEXED_AGAIN = f"""
{TEXTS.replace("texts", "temp.again", 1)};
INSERT INTO temp.again (rowid, {TEXT_COLUMNS}) SELECT rowid, {TEXT_COLUMNS} FROM main.texts;
CREATE VIRTUAL TABLE temp.stored USING fts5vocab (main, texts, row);
CREATE VIRTUAL TABLE temp.made USING fts5vocab (temp, again, row);
"""
DIFFERENCES = """SELECT count(*) FROM (
  SELECT * FROM (SELECT * FROM temp.stored EXCEPT SELECT * FROM temp.made)
  UNION SELECT * FROM (SELECT * FROM temp.made EXCEPT SELECT * FROM temp.stored)
)"""


@dataclass(frozen=True)
class CatalogSchema:
    """The schema of a catalog file."""

    version: int

    @property
    def is_old(self) -> bool:
        """Whether the next opening upgrades it to the current schema."""
        return self.version < VERSION


@dataclass(frozen=True)
class CatalogState(CatalogSchema):
    """The state of an intact catalog file: its schema, and the number of pictures."""

    pictures: int


def check_schema(path: Path) -> CatalogSchema:
    """Read only the version. Raises DamagedCatalog, UnknownSchema, or sqlite3.OperationalError where the file cannot be
    opened."""
    with closing(sqlite3.connect(reading_address(path), uri=True)) as database, telling_damage(path):
        return CatalogSchema(found_version(database, path))


def check_catalog(path: Path) -> CatalogState:
    """Read the whole file. Raises DamagedCatalog, UnknownSchema, or sqlite3.OperationalError where it cannot be
    opened."""
    with closing(sqlite3.connect(reading_address(path), uri=True)) as database:
        try:
            version = found_version(database, path)
            faults = faults_of(database, "integrity_check")
            if not faults:
                broken = database.execute("PRAGMA foreign_key_check").fetchmany(MOST_FAULTS)
                faults = [f"a row of {table} belongs to no row of {parent}" for table, _, parent, _ in broken]
            if faults:
                raise DamagedCatalog(path, "; ".join(faults))
            pictures = database.execute("SELECT count(*) FROM images WHERE deleted_at IS NULL") if version else None
            return CatalogState(version, 0 if pictures is None else int(pictures.fetchone()[0]))
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as fault:
            raise DamagedCatalog(path, fault) from fault


def faults_of(database: sqlite3.Connection, check: str) -> list[str]:
    """The first faults that `integrity_check` or `quick_check` finds, except those of the text index.

    SQLite checks that index only from 3.44 on; `text_index_fault` checks it with any version, and it can be rebuilt.
    """
    faults = [str(row[0]) for row in database.execute(f"PRAGMA {check}({MOST_FAULTS})")]
    return [fault for fault in faults if fault != "ok" and "fts5" not in fault.lower()]


def text_index_fault(path: Path) -> str | None:
    """The fault of a catalog's text index; None where it matches the texts that it was made from.

    The texts are indexed once more, in memory or temporary files, and compared.
    """
    with closing(sqlite3.connect(reading_address(path), uri=True)) as database:
        try:
            database.executescript(INDEXED_AGAIN)
            differing = database.execute(DIFFERENCES).fetchone()[0]
        except sqlite3.DatabaseError as fault:
            return str(fault)
    return f"{differing} words are indexed wrongly" if differing else None
