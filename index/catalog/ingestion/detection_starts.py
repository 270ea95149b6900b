"""Detections that began and did not end: pictures whose detection may have crashed the worker."""

from collections.abc import Sequence

from index.catalog.database.connection import Database
from index.catalog.queries import AMONG, among


class DetectionStarts:
    """Counts, for each picture, detections that began and did not end. Every method is one transaction, durable when it
    returns; a catalog's version does not follow."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(self, image_ids: Sequence[str]) -> None:
        """Count a start of each, before anything is done that may end the process."""
        with self._database.writing() as db:
            db.execute(f"UPDATE images SET starts = starts + 1 WHERE image_id {AMONG}", [among(image_ids)])

    def end(self, image_ids: Sequence[str]) -> None:
        """Note that the detection ended, well or not, without crashing the process; a commit of the regions does so by
        itself."""
        with self._database.writing() as db:
            db.execute(f"UPDATE images SET starts = 0 WHERE image_id {AMONG}", [among(image_ids)])

    def take_back(self, image_ids: Sequence[str]) -> None:
        """Take back one start of each: the process ends before it has begun with them."""
        with self._database.writing() as db:
            db.execute(f"UPDATE images SET starts = max(starts - 1, 0) WHERE image_id {AMONG}", [among(image_ids)])

    def of(self, image_ids: Sequence[str]) -> dict[str, int]:
        """The pictures among these that have starts, with how many."""
        with self._database.reading() as db:
            sql = f"SELECT image_id, starts FROM images WHERE image_id {AMONG} AND +starts > 0"
            return {row["image_id"]: int(row["starts"]) for row in db.execute(sql, [among(image_ids)])}

    def forget(self) -> None:
        """Forget all starts: those of one detector say nothing of another."""
        with self._database.writing() as db:
            db.execute("UPDATE images SET starts = 0 WHERE starts > 0")
