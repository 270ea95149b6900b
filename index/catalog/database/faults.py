"""Faults of a catalog's file, with messages that say what to do."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class UnknownSchema(Exception):
    """The file is a catalog of a newer version, or no catalog; the message says what to do."""


class DamagedCatalog(Exception):
    """The file is no longer readable as a catalog; the message says what to do."""

    def __init__(self, path: Path, fault: object) -> None:
        super().__init__(
            f"{path} is damaged ({fault}): stop every process of this data directory, keep a copy of it, and restore a"
            " snapshot or backup"
        )


class MissingCatalog(Exception):
    """The opened file is gone, or replaced by another collection's; the message says what to do."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} is not there any more, or is another collection's: mount its disk again, or move the data"
            " directory back; nothing is taken in meanwhile"
        )


class ReadOnlyCatalog(Exception):
    """The operation needs more than read access to the file; the message says what to do."""


@contextmanager
def telling_damage(path: Path) -> Iterator[None]:
    """A block of work on a catalog's file, in which SQLite's error for a damaged file becomes DamagedCatalog."""
    try:
        yield
    except sqlite3.DatabaseError as fault:
        if type(fault) is sqlite3.DatabaseError:  # its subclasses mean a programming error, a lock or the disk
            raise DamagedCatalog(path, fault) from fault
        raise
