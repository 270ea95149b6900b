"""Jobs: pictures that were sent together, and their progress."""

from collections import Counter
from collections.abc import Iterable
from sqlite3 import Connection, Row
from typing import Any, TypeAlias

from index.catalog.database.connection import Database
from index.catalog.queries import GONE, to_failures
from index.records import JobState, JobStatus

JobKey: TypeAlias = tuple[float, str]
"""A job's sort key, the same in every shard that has a part of it."""

OLDEST_FINISHED = """
  SELECT job_id FROM jobs
  WHERE created_at < min(?, (SELECT max(created_at) FROM jobs)) - ? AND NOT EXISTS (
    SELECT 1 FROM job_images JOIN images ON number = image WHERE job_id = jobs.job_id AND +state = 'queued'
  )
  ORDER BY created_at LIMIT 1
"""


def job_key(job: JobStatus) -> JobKey:
    """The sort key of a job: the latest come first."""
    return -job.created_at, job.job_id


class Jobs:
    """Jobs of a catalog. Every method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, job_id: str) -> JobStatus | None:
        """The progress of the job; None where it is unknown."""
        with self._database.reading() as db:
            job = db.execute("SELECT job_id, created_at FROM jobs WHERE job_id = ?", [job_id]).fetchone()
            return None if job is None else job_status(db, job)

    def page(self, after: JobKey | None, limit: int) -> list[JobStatus]:
        """Jobs after a place in their list, the latest first."""
        condition, values = "TRUE", list[Any]()
        if after is not None:  # not as one comparison of pairs, for which the index would not serve
            created_at, job_id = -after[0], after[1]
            condition, values = "created_at <= ? AND (created_at < ? OR job_id > ?)", [created_at, created_at, job_id]
        sql = f"SELECT job_id, created_at FROM jobs WHERE {condition} ORDER BY created_at DESC, job_id LIMIT ?"
        with self._database.reading() as db:
            return [job_status(db, job) for job in db.execute(sql, [*values, limit]).fetchall()]

    def forget_finished(self, seconds: float, now: float) -> bool:
        """Forget the oldest finished job if it is older than `seconds`; False where there is none.

        Its age counts up to the latest job or up to now, whichever is earlier: a clock that was changed makes no recent
        job old.
        """
        with self._database.writing() as db:
            row = db.execute(OLDEST_FINISHED, [now, seconds]).fetchone()
            if row is not None:
                db.execute("DELETE FROM job_images WHERE job_id = ?", [row["job_id"]])
                db.execute("DELETE FROM jobs WHERE job_id = ?", [row["job_id"]])
        return row is not None


def job_status(db: Connection, job: Row) -> JobStatus:
    """The progress of the job in a row of `jobs`."""
    parameters = [job["job_id"]]
    pictures = "FROM job_images JOIN images ON number = image WHERE job_id = ?"
    columns = "state, count(*) AS pictures, max(slot) AS last_slot, max(attempts) AS attempts"
    states = {row["state"]: row for row in db.execute(f"SELECT {columns} {pictures} GROUP BY state", parameters)}
    num_pictures = Counter({state: row["pictures"] for state, row in states.items()})
    done = sum(num_pictures[state] for state in ("ready", *GONE))
    begun = done or num_pictures["failed"] or any(row["attempts"] for row in states.values())
    state: JobState = "running" if begun else "queued"
    if not num_pictures["queued"]:
        state = "done"
    failed = db.execute(f"SELECT images.* {pictures} AND state = 'failed' ORDER BY number", parameters)
    last_caption = "SELECT max(slot) AS last_slot FROM job_images JOIN captions USING (image) WHERE job_id = ?"
    return JobStatus(
        job_id=job["job_id"],
        created_at=job["created_at"],
        state=state,
        total=num_pictures.total(),
        done=done,
        failed=num_pictures["failed"],
        failures=tuple(to_failures(failed) if num_pictures["failed"] else ()),
        picture_slots=_slots_up_to(row["last_slot"] for row in states.values()),
        caption_slots=_slots_up_to(row["last_slot"] for row in db.execute(last_caption, parameters)),
    )


def _slots_up_to(last_slots: Iterable[int | None]) -> int:
    """The number of slots up to the highest of these."""
    return max((slot + 1 for slot in last_slots if slot is not None), default=0)
