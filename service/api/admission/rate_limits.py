"""The rate limit of each API key: a token bucket a key, in Redis where there is one, so that all processes share it."""

import time
from collections.abc import Callable
from typing import Protocol


class RateLimiter(Protocol):
    """One bucket a key."""

    async def take(self, key_id: str) -> float:
        """Count a request; 0 where it may go on, otherwise the seconds after which it may."""

    async def close(self) -> None:
        """Let go of connections."""


class NoLimit:
    """Lets every request go on."""

    async def take(self, key_id: str) -> float:
        """No pause: 0 seconds."""
        return 0.0

    async def close(self) -> None:
        """Does nothing, since nothing is held open."""


class LocalRateLimiter:
    """Buckets in this process."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`rate` in requests a second; `burst` requests fit into a full bucket."""
        self._rate, self._burst = rate, burst
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}

    async def take(self, key_id: str) -> float:
        """Count a request; as many keys are kept as there are, since only valid ones come this far."""
        now = self._clock()
        tokens, at = self._buckets.get(key_id, (float(self._burst), now))
        tokens = min(float(self._burst), tokens + (now - at) * self._rate)
        wait_s = 0.0 if tokens >= 1 else (1 - tokens) / self._rate
        self._buckets[key_id] = (tokens if wait_s else tokens - 1, now)
        return wait_s

    async def close(self) -> None:
        """Does nothing, since nothing is held open."""
