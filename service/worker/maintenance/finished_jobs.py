"""Removal of old finished jobs; their pictures stay."""

from index.catalog.catalog import Catalog
from service.clocks import Clocks
from service.units import SECONDS_A_DAY

KEPT_DAYS = 30
JOBS_EVERY_S = 3600.0


class FinishedJobs:
    """Forgets jobs that are KEPT_DAYS older than the latest: a folder sent again every night would fill the catalog."""

    def __init__(self, catalog: Catalog, clocks: Clocks) -> None:
        self._jobs, self._clocks = catalog.jobs, clocks
        self._next = clocks.timer()

    def advance(self) -> bool:
        """Forget one such job; False when there was none, or the last check is recent."""
        if self._clocks.timer() < self._next:
            return False
        if self._jobs.forget_finished(KEPT_DAYS * SECONDS_A_DAY, self._clocks.time_of_day()):
            return True
        self._next = self._clocks.timer() + JOBS_EVERY_S
        return False
