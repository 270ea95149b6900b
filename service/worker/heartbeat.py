"""The sign of life of a worker, by which `/readyz` knows that it works."""

from index.catalog.catalog import Catalog
from index.catalog.ingestion.processes import WORKER
from service.clocks import Clocks

BEAT_S = 5.0


class Heartbeat:
    """Notes in the catalog, every BEAT_S at most, that the worker lives. Whatever may take long beats on its way."""

    def __init__(self, catalog: Catalog, clocks: Clocks) -> None:
        self._catalog, self._clocks = catalog, clocks
        self._beaten = float("-inf")

    def beat(self) -> None:
        """Note it, unless that was done just now."""
        now = self._clocks.timer()
        if now - self._beaten >= BEAT_S:
            self._catalog.processes.heartbeat(WORKER, self._clocks.time_of_day())
            self._beaten = now
