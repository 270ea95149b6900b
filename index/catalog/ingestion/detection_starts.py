"""Detections that began and did not end: pictures whose detection may have crashed the worker."""

from collections.abc import Sequence

from index.catalog.database.connection import Database
from index.catalog.queries import AMONG, among


class DetectionStarts:
    """Counts, for each picture, the detections that began and did not end. Every method is one transaction, durable
    when it returns, that leaves the catalog's version alone."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(self, image_ids: Sequence[str]) -> None:
        """Count one start of each picture, before any work that may crash the process."""
        with self._database.writing() as db:
            db.execute(f"UPDATE images SET starts = starts + 1 WHERE image_id {AMONG}", [among(image_ids)])

    def end(self, image_ids: Sequence[str]) -> None:
        """Record that the detections ended, successfully or not, without crashing the process. Committing the regions
        does so too."""
        with self._database.writing() as db:
            db.execute(f"UPDATE images SET starts = 0 WHERE image_id {AMONG}", [among(image_ids)])

    def take_back(self, image_ids: Sequence[str]) -> None:
        """Undo one start of each picture, because the process stops before it has worked on them."""
        with self._database.writing() as db:
            db.execute(f"UPDATE images SET starts = max(starts - 1, 0) WHERE image_id {AMONG}", [among(image_ids)])

    def of(self, image_ids: Sequence[str]) -> dict[str, int]:
        """Id -> number of starts, for those of the pictures that have any."""
        with self._database.reading() as db:
            sql = f"SELECT image_id, starts FROM images WHERE image_id {AMONG} AND +starts > 0"
            return {row["image_id"]: int(row["starts"]) for row in db.execute(sql, [among(image_ids)])}

    def forget(self) -> None:
        """Forget all starts: those of a former detector say nothing about the current one."""
        with self._database.writing() as db:
            db.execute("UPDATE images SET starts = 0 WHERE starts > 0")
