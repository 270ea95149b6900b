"""The two clocks of a process: the time of day, which may be set at any moment, and a monotonic timer."""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Clocks:
    """Two clocks, both in seconds."""

    time_of_day: Callable[[], float] = time.time
    """Since 1970; for storage and display. It jumps when somebody sets it."""
    timer: Callable[[], float] = time.monotonic
    """Since an arbitrary moment; for intervals."""


THIS_MACHINE = Clocks()
