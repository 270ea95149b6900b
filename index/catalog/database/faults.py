"""Faults of a catalog's file, in words that say what to do."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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


@contextmanager
def telling_damage(path: Path) -> Iterator[None]:
    """A block of work on a catalog's file, in which SQLite's word on a damaged one becomes DamagedCatalog."""
    try:
        yield
    except sqlite3.DatabaseError as fault:
        if type(fault) is sqlite3.DatabaseError:  # its subclasses are mistakes, or a lock, or the disk
            raise DamagedCatalog(path, fault) from fault
        raise
