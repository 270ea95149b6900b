"""A rate limit on log lines of one kind, so that strangers cannot fill the disk with lines that they provoke."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

MOST_LINES = 20  # of one kind
PERIOD_S = 10.0
MOST_KINDS = 1000


@dataclass
class _Kind:
    """Lines of one kind in the period that began at `start`."""

    start: float
    count: int = 0
    left_out: int = 0


class RateLimit(logging.Filter):
    """Passes MOST_LINES lines of one kind per PERIOD_S; the next line after that has the number left out.

    Lines of one kind come from one logger with one message, whatever its arguments. Audit lines all pass, since only
    callers with a key, or callers who need none, can provoke them.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._kinds: dict[tuple[str, int, str], _Kind] = {}
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """False where the line is left out."""
        if hasattr(record, "audit"):
            return True
        now = self._clock()
        with self._lock:
            if len(self._kinds) >= MOST_KINDS:
                self._kinds = {key: kind for key, kind in self._kinds.items() if now - kind.start < PERIOD_S}
            kind = self._kinds.setdefault((record.name, record.levelno, str(record.msg)[:200]), _Kind(now))
            left_out = 0
            if now - kind.start >= PERIOD_S:
                kind.start, kind.count, left_out, kind.left_out = now, 0, kind.left_out, 0
            kind.count += 1
            if kind.count > MOST_LINES:
                kind.left_out += 1
                return False
        if left_out:
            record.msg, record.args = f"{record.getMessage()} (and {left_out} more such lines, left out)", None
        return True
