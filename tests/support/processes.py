"""Waiting for what real processes do."""

import time
from collections.abc import Callable


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait until the condition holds; the time limit of the test ends an endless wait."""
    while not holds():
        time.sleep(0.02)
