"""Copies of a catalog: made while others write to it, and verified before one from elsewhere is trusted."""

import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from index.catalog.catalog import Catalog
from index.catalog.database.check import check_catalog, faults_of
from index.catalog.database.connection import is_writable, reading_address
from index.catalog.database.faults import DamagedCatalog, telling_damage
from index.catalog.text_index import TEXTS

# Values that become file names, and so must be well-formed: a picture's id and extension, a region store's folder.
STRANGE_NAMES = """
SELECT 'the id of a picture' FROM images
  WHERE image_id NOT GLOB 'erased-[0-9]*' AND (length(image_id) != 32 OR image_id GLOB '*[^0-9a-f]*')
UNION SELECT 'the extension of a picture' FROM images WHERE length(extension) > 8 OR extension GLOB '*[^a-z0-9]*'
UNION SELECT 'the id of a file' FROM arrivals WHERE length(image_id) != 32 OR image_id GLOB '*[^0-9a-f]*'
UNION SELECT 'the extension of a file' FROM arrivals WHERE length(extension) > 8 OR extension GLOB '*[^a-z0-9]*'
UNION SELECT 'the folder of a region store' FROM region_stores WHERE folder != 'regions' AND (
  folder NOT GLOB 'regions/[0-9a-zA-Z]*' OR substr(folder, 9) GLOB '*[^0-9a-zA-Z_.-]*')
"""
# A slot is a row of every slab: with a gap, memory would be allocated for rows that nobody wrote.
GAPS = """
SELECT 'regions' FROM (SELECT count(slot) AS n, coalesce(min(slot), 0) AS low, coalesce(max(slot), -1) AS high
  FROM images) WHERE low != 0 OR high != n - 1
UNION SELECT 'captions' FROM (SELECT count(slot) AS n, coalesce(min(slot), 0) AS low, coalesce(max(slot), -1) AS high
  FROM captions) WHERE low != 0 OR high != n - 1
"""
PARTS = "SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"
# A virtual table runs a module's code with arguments: only the text index is allowed.
VIRTUAL = """
SELECT name FROM pragma_table_list WHERE type = 'virtual' AND name != 'texts'
UNION SELECT name FROM sqlite_master WHERE name = 'texts' AND sql != ?
"""


def copy_catalog(source: Path, target: Path) -> None:
    """Copy the catalog as it is at one moment, even while others write to it, into a self-contained file.

    Raises DamagedCatalog where the source is no catalog, or where the copy cannot be read.
    """
    with (
        closing(sqlite3.connect(locking_address(source), uri=True)) as original,
        closing(sqlite3.connect(target)) as copy,
    ):
        with telling_damage(source):
            original.backup(copy)
            faults = faults_of(copy, "quick_check")
        if faults:
            raise DamagedCatalog(source, "; ".join(faults))
        copy.execute("PRAGMA journal_mode = DELETE")


def locking_address(path: Path) -> str:
    """The URI with which SQLite reads the file under its lock, so that nobody can begin a write meanwhile. This needs
    files beside it; where they cannot be created nobody can write either, and `reading_address` will do."""
    return f"{path.resolve().as_uri()}?mode=rw" if is_writable(path) else reading_address(path)


def check_foreign_catalog(path: Path) -> None:
    """Refuse a catalog that does more than hold rows, or that names files elsewhere.

    A catalog of an older schema is upgraded on the way, and the text index is rebuilt.

    Raises DamagedCatalog for such a catalog, UnknownSchema for one of a newer version.
    """
    check_catalog(path)
    with TemporaryDirectory() as folder:
        new = Path(folder) / "catalog.sqlite"
        Catalog(new).close()
        with closing(sqlite3.connect(new)) as database:
            expected = set(database.execute(PARTS))
    with closing(sqlite3.connect(reading_address(path), uri=True)) as database:
        # Before the first write, which would run a trigger.
        strange = {name for kind, name in database.execute(PARTS) if kind not in ("table", "index")}
        strange |= {name for (name,) in database.execute(VIRTUAL, [TEXTS])}
    if strange:
        raise DamagedCatalog(path, f"it holds {', '.join(sorted(strange))}, which no catalog does")
    with closing(Catalog(path)) as catalog:
        try:
            catalog.texts.rebuild()  # its contents are not to be trusted
        except sqlite3.OperationalError as fault:
            raise DamagedCatalog(path, fault) from fault
    with closing(sqlite3.connect(reading_address(path), uri=True)) as database:
        if set(database.execute(PARTS)) != expected:
            raise DamagedCatalog(path, "its tables are not those of a catalog")
        if names := [row[0] for row in database.execute(STRANGE_NAMES)]:
            raise DamagedCatalog(path, f"it holds what cannot be {' or '.join(names)}")
        if gaps := [row[0] for row in database.execute(GAPS)]:
            raise DamagedCatalog(path, f"slots of {' and '.join(gaps)} are missing")
