"""Looking at real processes."""

import time
from collections.abc import Callable
from pathlib import Path

from service.chaos.processes import children_of

__all__ = ["children_of", "is_running", "wait_until"]


def wait_until(holds: Callable[[], bool]) -> None:
    """Return once it holds; the test's own time limit ends a vain wait."""
    while not holds():
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    """Whether there is such a process, and it is not merely waiting to be counted."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(") ")[2][0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"
