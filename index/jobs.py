"""Jobs: what was sent together, and how far it is."""

from collections import Counter
from sqlite3 import Connection, Row

from index.queries import GONE, to_failures
from index.records import JobState, JobStatus
from index.schema import Database


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


def job_status(db: Connection, job: Row) -> JobStatus:
    """The progress of the job of a row of `jobs`."""
    own = [job["job_id"]]
    rows = db.execute(
        "SELECT images.* FROM job_images JOIN images ON number = image WHERE job_id = ? ORDER BY number", own
    ).fetchall()
    last = db.execute("SELECT max(slot) FROM job_images JOIN captions USING (image) WHERE job_id = ?", own).fetchone()
    counted = Counter(row["state"] for row in rows)
    done = sum(counted[state] for state in ("ready", *GONE))
    begun = done or counted["failed"] or any(row["attempts"] for row in rows)
    state: JobState = "running" if begun else "queued"
    if not counted["queued"]:
        state = "done"
    failures = to_failures(row for row in rows if row["state"] == "failed")
    return JobStatus(
        job_id=job["job_id"],
        created_at=job["created_at"],
        state=state,
        total=len(rows),
        done=done,
        failed=counted["failed"],
        failures=tuple(failures),
        picture_slots=max((row["slot"] + 1 for row in rows if row["slot"] is not None), default=0),
        caption_slots=0 if last[0] is None else last[0] + 1,
    )
