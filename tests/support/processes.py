"""Looking at real processes."""

import time
from collections.abc import Callable

from service.chaos.processes import children_of

__all__ = ["children_of", "wait_until"]


def wait_until(holds: Callable[[], bool]) -> None:
    """Return once it holds; the test's own time limit ends a vain wait."""
    while not holds():
        time.sleep(0.02)
