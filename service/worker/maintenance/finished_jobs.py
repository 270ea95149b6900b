"""Finished jobs: how an ingestion went is known for a while, and then let go of, its pictures not."""

from index.catalog.catalog import Catalog
from service.clocks import Clocks
from service.units import SECONDS_A_DAY

KEPT_DAYS = 30
JOBS_EVERY_S = 3600.0


class FinishedJobs:
    """Forgets jobs that ended once another came KEPT_DAYS later: a folder sent again every night would fill the
    catalog."""

    def __init__(self, catalog: Catalog, clocks: Clocks) -> None:
        self._jobs, self._clocks = catalog.jobs, clocks
        self._next = clocks.timer()

    def advance(self) -> bool:
        """Forget one of these jobs; False when there was none, or it was looked for them just now."""
        if self._clocks.timer() < self._next:
            return False
        if self._jobs.forget_finished(KEPT_DAYS * SECONDS_A_DAY, self._clocks.time_of_day()):
            return True
        self._next = self._clocks.timer() + JOBS_EVERY_S
        return False
