"""The worker's heartbeat, from which `/readyz` knows that it works."""

from index.catalog.catalog import Catalog
from index.catalog.ingestion.processes import WORKER
from service.clocks import Clocks

BEAT_S = 5.0


class Heartbeat:
    """Records in the catalog, at most every BEAT_S, that the worker is alive. Long operations call it repeatedly."""

    def __init__(self, catalog: Catalog, clocks: Clocks) -> None:
        self._catalog, self._clocks = catalog, clocks
        self._last_beat = float("-inf")

    def beat(self) -> None:
        """Record a heartbeat, unless the last one is recent."""
        now = self._clocks.timer()
        if now - self._last_beat >= BEAT_S:
            self._catalog.processes.heartbeat(WORKER, self._clocks.time_of_day())
            self._last_beat = now
