"""Finished jobs: how an ingestion went is known for a while, and then let go of, its pictures not."""

import time

from index.catalog import Catalog

KEPT_DAYS = 30
JOBS_EVERY_S = 3600.0
SECONDS_PER_DAY = 86400


class FinishedJobs:
    """Forgets jobs that ended once another came KEPT_DAYS later: a folder sent again every night would fill the
    catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._jobs = catalog.jobs
        self._next = time.monotonic()

    def advance(self) -> bool:
        """Forget one of these jobs; False when there was none, or it was looked for them just now."""
        if time.monotonic() < self._next:
            return False
        if self._jobs.forget_finished(KEPT_DAYS * SECONDS_PER_DAY, time.time()):
            return True
        self._next = time.monotonic() + JOBS_EVERY_S
        return False
