"""Files that a service could not check in time, to be sent again."""

from collections.abc import Callable
from pathlib import Path

FIRST_PAUSE_S = 15.0
MOST_ATTEMPTS = 6  # the last one follows after eight minutes


class PostponedFiles:
    """Counts the failed attempts to send each file; the wait doubles after each attempt."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._attempts: dict[Path, int] = {}
        self._not_before: dict[Path, float] = {}

    def postpone(self, path: Path) -> bool:
        """Count a failed attempt. Returns whether to try again later: False after MOST_ATTEMPTS attempts."""
        attempts = self._attempts[path] = self._attempts.get(path, 0) + 1
        self._not_before[path] = self._clock() + FIRST_PAUSE_S * 2 ** (attempts - 1)
        return attempts < MOST_ATTEMPTS

    def waits(self, path: Path) -> bool:
        """Whether it is too early to send the file."""
        return self._clock() < self._not_before.get(path, float("-inf"))
