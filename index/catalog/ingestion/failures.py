"""Failures: pictures set aside, and stored ones of which the current region store holds no regions."""

from typing import Any, TypeAlias

from index.catalog.database.connection import Database
from index.catalog.queries import to_failures
from index.records import Failure

FailureKey: TypeAlias = tuple[float, str]
"""A failure's place in their list, the same in every copy of a collection."""

# Of both kinds a column is called as in `images`; those who look for one picture find it by its id.
FAILURES = """
  SELECT added_at, image_id, filename, reason, attempts FROM images WHERE state = 'failed'
  UNION ALL
  SELECT added_at, image_id, filename, blank_regions.reason, max(attempts, starts)
  FROM region_stores JOIN blank_regions USING (extractor) JOIN images USING (slot)
  WHERE region_stores.state = 'current' AND blank_regions.reason IS NOT NULL AND deleted_at IS NULL
"""
# When a picture failed is told by the clock of the machine that tried it; when it came, all copies agree on.
PLACE = "-added_at, image_id"


def failure_key(failure: Failure) -> FailureKey:
    """The place of a failure in a list, those of the latest pictures first."""
    return -failure.added_at, failure.image_id


class Failures:
    """Looks up failures. Every method is one look."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, image_id: str) -> Failure | None:
        """Why this picture was set aside or has no regions; None where it was not."""
        with self._database.reading() as db:
            rows = db.execute(f"SELECT * FROM ({FAILURES}) WHERE image_id = ?", [image_id]).fetchall()
        return next(iter(to_failures(rows)), None)

    def page(self, after: FailureKey | None = None, limit: int = -1) -> list[Failure]:
        """Failures after a place in their list, the latest pictures first; all where `limit` is negative."""
        beyond, keys = "TRUE", list[Any]()
        if after is not None:
            beyond, keys = f"({PLACE}) > (?, ?)", list(after)
        sql = f"SELECT * FROM ({FAILURES}) WHERE {beyond} ORDER BY {PLACE} LIMIT ?"
        with self._database.reading() as db:
            return to_failures(db.execute(sql, [*keys, limit]).fetchall())
