"""The state of ingestion jobs: a job is done when its pictures can be found, not when they are stored."""

import threading
from collections import OrderedDict
from dataclasses import replace
from typing import Protocol

from index.catalog.catalog import Catalog
from index.catalog.ingestion.jobs import JobKey
from index.records import JobStatus
from service.search.model_views import ModelViews

REMEMBERED_JOBS = 1000  # that were reported as done


class JobStates(Protocol):
    """The state of jobs as clients see it."""

    def job(self, job_id: str) -> JobStatus | None:
        """The job; None where there is none."""

    def jobs(self, after: JobKey | None, limit: int) -> list[JobStatus]:
        """Jobs after a place in their list, the latest first."""


class JobProgress:
    """Reads the state of jobs as clients see it. Thread-safe."""

    def __init__(self, catalog: Catalog, models: ModelViews) -> None:
        self._catalog = catalog
        self._models = models
        self._done: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def job(self, job_id: str) -> JobStatus | None:
        """The job; `running` until the default model's view holds its pictures and captions."""
        job = self._catalog.jobs.find(job_id)
        return None if job is None else self._as_searchable(job)

    def jobs(self, after: JobKey | None, limit: int) -> list[JobStatus]:
        """Jobs after a place in their list, the latest first."""
        return [self._as_searchable(job) for job in self._catalog.jobs.page(after, limit)]

    def _as_searchable(self, job: JobStatus) -> JobStatus:
        """The job as clients see it. One reported as done stays so, whatever captions its pictures are given later."""
        if job.state != "done":
            with self._lock:
                self._done.pop(job.job_id, None)
            return job
        snapshot = self._models.default.snapshot()
        pictures, captions = snapshot.counts if snapshot else (0, 0)
        is_behind = pictures < job.picture_slots or captions < job.caption_slots
        with self._lock:
            if is_behind and job.job_id not in self._done:
                return replace(job, state="running")
            self._done[job.job_id] = None
            self._done.move_to_end(job.job_id)
            if len(self._done) > REMEMBERED_JOBS:
                self._done.popitem(last=False)
        return job
