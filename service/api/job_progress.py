"""The state of ingestion jobs: one is done when its pictures can be found, not when they are stored."""

import threading
from collections import OrderedDict
from dataclasses import replace

from index.catalog import Catalog
from index.records import JobStatus
from service.search.model_views import ModelViews

MAX_REMEMBERED = 10_000  # jobs; one that was forgotten seems to run for longer while other pictures come in


class JobProgress:
    """Reads the state of jobs as clients see it. Safe from many threads."""

    def __init__(self, catalog: Catalog, models: ModelViews) -> None:
        self._catalog = catalog
        self._models = models
        self._needed: OrderedDict[str, tuple[int, int]] = OrderedDict()
        self._lock = threading.Lock()

    def job(self, job_id: str) -> JobStatus | None:
        """The job; `running` until the default model's view holds what was stored when its last picture was."""
        job = self._catalog.job(job_id)
        if job is None or job.state != "done" or self._searchable(job_id):
            return job
        return replace(job, state="running")

    def _searchable(self, job_id: str) -> bool:
        with self._lock:
            needed = self._needed.get(job_id)
        if needed is None:
            needed = self._catalog.num_slots(), self._catalog.num_caption_slots()
            with self._lock:
                self._needed[job_id] = needed
                while len(self._needed) > MAX_REMEMBERED:
                    self._needed.popitem(last=False)
        snapshot = self._models.default.snapshot()
        pictures, captions = snapshot.counts if snapshot else (0, 0)
        return pictures >= needed[0] and captions >= needed[1]
