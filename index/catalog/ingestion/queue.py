"""The queue of pictures that wait for their regions."""

import uuid
from collections.abc import Sequence

from index.catalog.changes.writes import requeue
from index.catalog.database.connection import Database
from index.catalog.queries import AMONG, among
from index.records import QueuedPicture


class Queue:
    """The queue of a catalog. Every method is one transaction, durable when it returns."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def waiting(self, limit: int) -> list[QueuedPicture]:
        """Pictures waiting for regions, the oldest first; those tried before come after all others."""
        columns = "SELECT image_id, filename, extension, attempts, starts FROM images WHERE state = 'queued'"
        fresh = f"{columns} AND +attempts + starts = 0 ORDER BY number LIMIT ?"
        tried = f"{columns} AND +attempts + starts > 0 ORDER BY starts, number LIMIT ?"
        with self._database.reading() as db:
            queued = [QueuedPicture(**row) for row in db.execute(fresh, [limit])]
            if len(queued) < limit:
                queued += [QueuedPicture(**row) for row in db.execute(tried, [limit - len(queued)])]
        return queued

    def num_waiting(self) -> int:
        """The number of pictures that wait for their regions."""
        return self._database.read_number("SELECT count(*) FROM images WHERE state = 'queued'")

    def waiting_among(self, image_ids: Sequence[str]) -> set[str]:
        """The subset of the ids whose pictures wait for regions."""
        with self._database.reading() as db:
            sql = f"SELECT image_id FROM images WHERE image_id {AMONG} AND +state = 'queued'"
            return {row["image_id"] for row in db.execute(sql, [among(image_ids)])}

    def count_attempt(self, image_id: str, reason: str) -> int:
        """Count a failed attempt; returns the number of attempts so far. KeyError for an unknown picture."""
        sql = "UPDATE images SET attempts = attempts + 1, starts = 0, reason = ? WHERE image_id = ? RETURNING attempts"
        with self._database.changing() as db:
            changed = db.execute(sql, [reason, image_id]).fetchall()
            if not changed:
                raise KeyError(f"no picture {image_id}")
            return int(changed[0]["attempts"])

    def set_aside(self, image_id: str, reason: str, now: float) -> None:
        """Move a queued picture out of the queue into the failures."""
        sql = (
            "UPDATE images SET failed_at = ?, reason = ?, attempts = max(attempts, starts), starts = 0"
            " WHERE image_id = ? AND state = 'queued'"
        )
        with self._database.changing() as db:
            db.execute(sql, [now, reason, image_id])

    def retry(self, image_id: str, now: float, job_id: str = "") -> str | None:
        """Queue a failed picture again, in a job of its own; the job's id, or None where the picture had not failed."""
        job_id = job_id or uuid.uuid4().hex
        with self._database.changing() as db:
            return job_id if requeue(db, image_id, job_id, now) else None
