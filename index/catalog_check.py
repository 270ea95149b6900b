"""The check of a catalog file: a look at every page of it, which changes nothing."""

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from index.schema import VERSION, DamagedCatalog, found_version, reading_address

MOST_FAULTS = 3  # that are named


@dataclass(frozen=True)
class CatalogState:
    """The contents of a catalog file without faults, counted."""

    version: int
    pictures: int

    @property
    def is_old(self) -> bool:
        """Whether it is brought to the current schema when it is opened next."""
        return self.version < VERSION


def check_catalog(path: Path) -> CatalogState:
    """Read the whole file. DamagedCatalog, UnknownSchema, sqlite3.OperationalError where it cannot be opened."""
    with closing(sqlite3.connect(reading_address(path), uri=True)) as database:
        try:
            version = found_version(database, path)
            faults = [str(row[0]) for row in database.execute(f"PRAGMA quick_check({MOST_FAULTS})")]
            if faults == ["ok"]:
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
