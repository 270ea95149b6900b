"""Wake-ups between the web side and the worker. The catalog is authoritative: a lost wake-up costs at most a second."""

import threading
import time
from typing import Protocol

from index.catalog.catalog import Catalog

SWEEP_S = 1.0
POLL_S = 0.1


class Notifier(Protocol):
    """Tells the worker that there is work."""

    def wake(self) -> None:
        """Signal that there is work. Never raises; blocks for a moment at most."""

    def close(self) -> None:
        """Close connections."""


class NoNotifier:
    """Notifies nobody: without Redis, the worker polls."""

    def wake(self) -> None:
        """Do nothing, since the worker polls the catalog."""

    def close(self) -> None:
        """Do nothing, since nothing is open."""


class Wakeups(Protocol):
    """Tells the worker when to check the catalog."""

    def wait(self, stop: threading.Event) -> None:
        """Return when there may be work, when `stop` is set, and in any case after about a second."""

    def acknowledge(self) -> None:
        """Confirm that all work known when `wait` returned is done and committed."""

    def close(self) -> None:
        """Close connections."""


class Polling:
    """Polls the catalog's version ten times a second."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._seen = -1  # so that the first wait returns at once

    def wait(self, stop: threading.Event) -> None:
        """Return as soon as the catalog has changed, or after SWEEP_S."""
        deadline = time.monotonic() + SWEEP_S
        # A change after this version is read ends the next wait, so none is missed.
        while (version := self._catalog.version()) == self._seen and time.monotonic() < deadline:
            if stop.wait(POLL_S):
                break
        self._seen = version

    def acknowledge(self) -> None:
        """Do nothing, since no state is kept for a wake-up."""

    def close(self) -> None:
        """Do nothing, since nothing is open."""
