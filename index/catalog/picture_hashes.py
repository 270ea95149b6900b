"""Hashes of what pictures look like: given to those that were taken in before such were kept, and which are plain."""

from collections.abc import Mapping

from index.catalog.database.connection import Database
from index.records import FEATURES_ONLY, QueuedPicture

TINY = 16  # pixels


class PictureHashes:
    """The hashes. Every method is one transaction, durable when it returns."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def missing(self, limit: int) -> list[QueuedPicture]:
        """Ready pictures of which no hash is known, the oldest first."""
        sql = (
            "SELECT image_id, filename, extension, attempts, starts FROM images"
            f" WHERE state = 'ready' AND looks IS NULL AND extension != '{FEATURES_ONLY}' ORDER BY number LIMIT ?"
        )
        with self._database.reading() as db:
            return [QueuedPicture(**row) for row in db.execute(sql, [limit])]

    def add(self, hashes: Mapping[str, bytes]) -> None:
        """Store hashes by the ids of their pictures."""
        sql = "UPDATE images SET looks = ? WHERE image_id = ? AND state = 'ready'"
        with self._database.changing() as db:
            db.executemany(sql, [(found, image_id) for image_id, found in hashes.items()])
            db.execute("INSERT OR IGNORE INTO counters VALUES ('hash_round_begun', 1)")

    def end_round(self) -> None:
        """Note that a round of missing ones was made, if some were: whoever looked before looks again."""
        if not self._database.read_number("SELECT count(*) FROM counters WHERE name = 'hash_round_begun'"):
            return
        with self._database.changing() as db:
            db.execute("DELETE FROM counters WHERE name = 'hash_round_begun'")
            db.execute("INSERT INTO counters VALUES ('hash_rounds', 1) ON CONFLICT DO UPDATE SET value = value + 1")

    def rounds(self) -> int:
        """The number of such rounds."""
        return self._database.read_number("SELECT total(value) FROM counters WHERE name = 'hash_rounds'")

    def plain_slots(self, first: int, stop: int) -> list[int]:
        """Slots from `first` on, below `stop`, whose pictures have no structure, and so an empty hash, or are tiny."""
        sql = (
            "SELECT slot FROM images WHERE slot >= ? AND slot < ? AND looks IS NOT NULL"
            " AND (looks = x'' OR min(width, height) <= ?) ORDER BY slot"
        )
        with self._database.reading() as db:
            return [row["slot"] for row in db.execute(sql, [first, stop, TINY])]
