"""Files that a service could not look at in time, to be sent again."""

from collections.abc import Callable
from pathlib import Path

FIRST_PAUSE_S = 15.0
MOST_ATTEMPTS = 6  # the last of them comes after eight minutes


class PostponedFiles:
    """Counts how often each file was sent in vain; after each time it waits twice as long as before."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._attempts: dict[Path, int] = {}
        self._not_before: dict[Path, float] = {}

    def postpone(self, path: Path) -> bool:
        """Let the file wait, unless it was sent MOST_ATTEMPTS times; whether it waits."""
        attempts = self._attempts[path] = self._attempts.get(path, 0) + 1
        self._not_before[path] = self._clock() + FIRST_PAUSE_S * 2 ** (attempts - 1)
        return attempts < MOST_ATTEMPTS

    def waits(self, path: Path) -> bool:
        """Whether it is too early to send the file."""
        return self._clock() < self._not_before.get(path, float("-inf"))
