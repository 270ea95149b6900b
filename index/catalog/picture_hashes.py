"""Perceptual hashes: added to pictures that were stored before the catalog had them, and used to find plain
pictures."""

from collections.abc import Mapping

from index.catalog.database.connection import Database
from index.records import FEATURES_ONLY, QueuedPicture

TINY = 16  # pixels


class PictureHashes:
    """Perceptual hashes. Every method is one transaction, durable when it returns."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def missing(self, limit: int) -> list[QueuedPicture]:
        """Ready pictures without a hash, the oldest first."""
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
            db.executemany(sql, [(picture_hash, image_id) for image_id, picture_hash in hashes.items()])
            db.execute("INSERT OR IGNORE INTO counters VALUES ('hash_round_begun', 1)")

    def end_round(self) -> None:
        """Record that a round of adding missing hashes ended, if any were added: readers of earlier results look
        again."""
        if not self._database.read_number("SELECT count(*) FROM counters WHERE name = 'hash_round_begun'"):
            return
        with self._database.changing() as db:
            db.execute("DELETE FROM counters WHERE name = 'hash_round_begun'")
            db.execute("INSERT INTO counters VALUES ('hash_rounds', 1) ON CONFLICT DO UPDATE SET value = value + 1")

    def rounds(self) -> int:
        """The number of completed rounds."""
        return self._database.read_number("SELECT total(value) FROM counters WHERE name = 'hash_rounds'")

    def plain_slots(self, first: int, stop: int) -> list[int]:
        """Slots from `first` up to `stop`, exclusive, whose pictures are tiny or without structure (with an empty
        hash)."""
        sql = (
            "SELECT slot FROM images WHERE slot >= ? AND slot < ? AND looks IS NOT NULL"
            " AND (looks = x'' OR min(width, height) <= ?) ORDER BY slot"
        )
        with self._database.reading() as db:
            return [row["slot"] for row in db.execute(sql, [first, stop, TINY])]
