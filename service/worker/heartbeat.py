"""The sign of life of a worker, by which `/readyz` knows that it works."""

import time
from collections.abc import Callable

from index.catalog import Catalog

BEAT_S = 5.0
ROLE = "worker"


class Heartbeat:
    """Notes in the catalog, every BEAT_S at most, that the worker lives. Whatever may take long beats on its way."""

    def __init__(
        self,
        catalog: Catalog,
        clock: Callable[[], float] = time.time,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock` gives the time of day, which may be set; `timer` tells how much has passed."""
        self._catalog, self._clock, self._timer = catalog, clock, timer
        self._beaten = float("-inf")

    def beat(self) -> None:
        """Note it, unless that was done just now."""
        now = self._timer()
        if now - self._beaten >= BEAT_S:
            self._catalog.heartbeat(ROLE, self._clock())
            self._beaten = now
