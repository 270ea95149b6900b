"""Waiting for what real processes do."""

import time
from collections.abc import Callable


def wait_until(holds: Callable[[], bool]) -> None:
    """Return once it holds; the test's own time limit ends a vain wait."""
    while not holds():
        time.sleep(0.02)
