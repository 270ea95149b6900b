"""Hashes of what pictures look like, for those that were taken in before such hashes were kept."""

from collections.abc import Mapping

from index.catalog.database import Database
from index.records import FEATURES_ONLY, QueuedPicture


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
