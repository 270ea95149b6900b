"""Wake-ups between the web side and the worker. The catalog is the truth: a lost wake-up costs a second at most."""

import threading
import time
from typing import Protocol

from index.catalog.catalog import Catalog

SWEEP_S = 1.0
POLL_S = 0.1


class Notifier(Protocol):
    """Tells the worker that there is something to do."""

    def wake(self) -> None:
        """There is something to do. Never raises; blocks for a moment at most."""

    def close(self) -> None:
        """Let go of connections."""


class NoNotifier:
    """Tells nobody: a worker without Redis looks by itself."""

    def wake(self) -> None:
        """Does nothing, since the worker finds what is new in the catalog."""

    def close(self) -> None:
        """Does nothing, since nothing is held open."""


class Wakeups(Protocol):
    """Tells the worker when to look into the catalog."""

    def wait(self, stop: threading.Event) -> None:
        """Return when there may be work, when `stop` is set, and in any case after about a second."""

    def acknowledge(self) -> None:
        """All work that was known when `wait` returned is done and committed."""

    def close(self) -> None:
        """Let go of connections."""


class Polling:
    """Looks at the catalog's version ten times a second."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._seen = -1  # the first look is always worth it

    def wait(self, stop: threading.Event) -> None:
        """Return as soon as the catalog has changed, or after SWEEP_S."""
        end = time.monotonic() + SWEEP_S
        # What changes after this version is read is found by the next wait, so nothing falls between.
        while (version := self._catalog.version()) == self._seen and time.monotonic() < end:
            if stop.wait(POLL_S):
                break
        self._seen = version

    def acknowledge(self) -> None:
        """Does nothing, since nothing is kept of a wake-up."""

    def close(self) -> None:
        """Does nothing, since nothing is held open."""
