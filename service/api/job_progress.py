"""The state of ingestion jobs: one is done when its pictures can be found, not when they are stored."""

from dataclasses import replace
from typing import Protocol

from index.catalog import Catalog
from index.records import JobStatus
from service.search.model_views import ModelViews


class JobStates(Protocol):
    """The state of jobs as clients see it."""

    def job(self, job_id: str) -> JobStatus | None:
        """The job; None when there is no such job."""

    def jobs(self, limit: int) -> list[JobStatus]:
        """The jobs that came last, the latest first."""


class JobProgress:
    """Reads the state of jobs as clients see it. Safe from many threads."""

    def __init__(self, catalog: Catalog, models: ModelViews) -> None:
        self._catalog = catalog
        self._models = models

    def job(self, job_id: str) -> JobStatus | None:
        """The job; `running` until the default model's view holds its pictures and captions."""
        job = self._catalog.job(job_id)
        return None if job is None else self._as_searchable(job)

    def jobs(self, limit: int) -> list[JobStatus]:
        """The jobs that came last, the latest first."""
        return [self._as_searchable(job) for job in self._catalog.jobs.latest(limit)]

    def _as_searchable(self, job: JobStatus) -> JobStatus:
        snapshot = self._models.default.snapshot()
        pictures, captions = snapshot.counts if snapshot else (0, 0)
        is_behind = pictures < job.picture_slots or captions < job.caption_slots
        return replace(job, state="running") if job.state == "done" and is_behind else job
