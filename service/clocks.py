"""The clocks that a process reads: the time of day, which may be set at any moment, and the time that passes."""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Clocks:
    """Two clocks, both in seconds."""

    time_of_day: Callable[[], float] = time.time
    """Since 1970; what is stored and shown. It jumps when somebody sets it."""
    timer: Callable[[], float] = time.monotonic
    """Since whenever; for what is due after a while."""


THIS_MACHINE = Clocks()
