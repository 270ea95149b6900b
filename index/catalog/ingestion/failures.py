"""Failures: pictures set aside, and stored pictures without regions in the current region store."""

from typing import Any, TypeAlias

from index.catalog.database.connection import Database
from index.catalog.queries import to_failures
from index.records import Failure

FailureKey: TypeAlias = tuple[float, str]
"""A failure's sort key, the same in every copy of a collection."""

# Both parts name their columns as `images` does, so that one picture can be looked up by its id.
FAILURES = """
  SELECT added_at, image_id, filename, reason, attempts FROM images WHERE state = 'failed'
  UNION ALL
  SELECT added_at, image_id, filename, blank_regions.reason, max(attempts, starts)
  FROM region_stores JOIN blank_regions USING (extractor) JOIN images USING (slot)
  WHERE region_stores.state = 'current' AND blank_regions.reason IS NOT NULL AND deleted_at IS NULL
"""
# Not the time of the failure, which each machine takes from its own clock: all copies agree on the arrival time.
PLACE = "-added_at, image_id"


def failure_key(failure: Failure) -> FailureKey:
    """The sort key of a failure: the latest pictures come first."""
    return -failure.added_at, failure.image_id


class Failures:
    """Looks up failures. Every method is one read transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, image_id: str) -> Failure | None:
        """The failure of this picture; None where it has none."""
        with self._database.reading() as db:
            rows = db.execute(f"SELECT * FROM ({FAILURES}) WHERE image_id = ?", [image_id]).fetchall()
        return next(iter(to_failures(rows)), None)

    def page(self, after: FailureKey | None = None, limit: int = -1) -> list[Failure]:
        """Failures after a place in their list, the latest pictures first; all of them where `limit` is negative."""
        condition, values = "TRUE", list[Any]()
        if after is not None:
            condition, values = f"({PLACE}) > (?, ?)", list(after)
        sql = f"SELECT * FROM ({FAILURES}) WHERE {condition} ORDER BY {PLACE} LIMIT ?"
        with self._database.reading() as db:
            return to_failures(db.execute(sql, [*values, limit]).fetchall())
