"""Announcements of files that are about to be stored, each settled by the commit that adds its picture.

An announcement that was never settled belongs to an upload that failed or was killed, as do its files.
"""

from collections.abc import Iterable, Sequence
from sqlite3 import Connection
from typing import NamedTuple

from index.catalog.database.connection import Database
from index.catalog.queries import AMONG, among


class Arrival(NamedTuple):
    """A file that is about to be stored."""

    image_id: str
    extension: str


def withdraw(db: Connection, image_ids: Iterable[str]) -> None:
    """Delete the announcements of these pictures, inside the caller's transaction."""
    db.execute(f"DELETE FROM arrivals WHERE image_id {AMONG}", [among(image_ids)])


class Arrivals:
    """Announcements of files. Every method is one transaction, durable when it returns."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def announce(self, files: Sequence[Arrival]) -> None:
        """Record that these files are about to be stored."""
        with self._database.writing() as db:
            db.executemany("INSERT OR REPLACE INTO arrivals (image_id, extension) VALUES (?, ?)", files)

    def open(self) -> list[tuple[Arrival, bool]]:
        """The announcements that no commit settled, each with whether the catalog has the picture all the same."""
        sql = "SELECT arrivals.image_id, arrivals.extension, number FROM arrivals LEFT JOIN images USING (image_id)"
        with self._database.reading() as db:
            return [(Arrival(row[0], row[1]), row[2] is not None) for row in db.execute(sql)]

    def withdraw(self, files: Sequence[Arrival]) -> None:
        """Delete the announcements of these files."""
        with self._database.writing() as db:
            withdraw(db, [file.image_id for file in files])
