"""Jobs: what was sent together, and how far it is."""

from collections import Counter
from collections.abc import Iterable
from sqlite3 import Connection, Row

from index.catalog.database.connection import Database
from index.catalog.queries import GONE, to_failures
from index.records import JobState, JobStatus

OLDEST_FINISHED = """
  SELECT job_id FROM jobs
  WHERE created_at < min(?, (SELECT max(created_at) FROM jobs)) - ? AND NOT EXISTS (
    SELECT 1 FROM job_images JOIN images ON number = image WHERE job_id = jobs.job_id AND +state = 'queued'
  )
  ORDER BY created_at LIMIT 1
"""


class Jobs:
    """Jobs of a catalog, each method in one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, job_id: str) -> JobStatus | None:
        """The progress of the job; None when there is no such job."""
        with self._database.reading() as db:
            job = db.execute("SELECT job_id, created_at FROM jobs WHERE job_id = ?", [job_id]).fetchone()
            return None if job is None else job_status(db, job)

    def latest(self, limit: int) -> list[JobStatus]:
        """The jobs that came last, the latest first."""
        sql = "SELECT job_id, created_at FROM jobs ORDER BY created_at DESC, job_id LIMIT ?"
        with self._database.reading() as db:
            return [job_status(db, job) for job in db.execute(sql, [limit]).fetchall()]

    def forget_finished(self, seconds: float, now: float) -> bool:
        """Forget the oldest finished job, if it is old enough; returns False where there is none.

        It is as old as the latest job came later, and no older than it is now: whichever way a clock was set, jobs that
        came just now are not old.
        """
        with self._database.writing() as db:
            found = db.execute(OLDEST_FINISHED, [now, seconds]).fetchone()
            if found is not None:
                db.execute("DELETE FROM job_images WHERE job_id = ?", [found["job_id"]])
                db.execute("DELETE FROM jobs WHERE job_id = ?", [found["job_id"]])
        return found is not None


def job_status(db: Connection, job: Row) -> JobStatus:
    """The progress of the job of a row of `jobs`."""
    own = [job["job_id"]]
    pictures = "FROM job_images JOIN images ON number = image WHERE job_id = ?"
    counts = "state, count(*) AS pictures, max(slot) AS last_slot, max(attempts) AS attempts"
    states = {row["state"]: row for row in db.execute(f"SELECT {counts} {pictures} GROUP BY state", own)}
    counted = Counter({state: row["pictures"] for state, row in states.items()})
    done = sum(counted[state] for state in ("ready", *GONE))
    begun = done or counted["failed"] or any(row["attempts"] for row in states.values())
    state: JobState = "running" if begun else "queued"
    if not counted["queued"]:
        state = "done"
    failed = db.execute(f"SELECT images.* {pictures} AND state = 'failed' ORDER BY number", own)
    last_caption = "SELECT max(slot) AS last_slot FROM job_images JOIN captions USING (image) WHERE job_id = ?"
    return JobStatus(
        job_id=job["job_id"],
        created_at=job["created_at"],
        state=state,
        total=counted.total(),
        done=done,
        failed=counted["failed"],
        failures=tuple(to_failures(failed) if counted["failed"] else ()),
        picture_slots=_slots_up_to(row["last_slot"] for row in states.values()),
        caption_slots=_slots_up_to(row["last_slot"] for row in db.execute(last_caption, own)),
    )


def _slots_up_to(last: Iterable[int | None]) -> int:
    """The number of slots up to the last of these."""
    return max((slot + 1 for slot in last if slot is not None), default=0)
