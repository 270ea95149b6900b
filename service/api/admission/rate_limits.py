"""The rate limit of API keys: one token bucket per key, in Redis where there is one, so that all processes share it."""

import time
from collections.abc import Callable
from typing import Protocol


class RateLimiter(Protocol):
    """One token bucket per key."""

    async def take(self, key_id: str) -> float:
        """Count a request. Returns 0 where it may go on, otherwise the seconds to wait."""

    async def close(self) -> None:
        """Close connections."""


class NoLimit:
    """A limiter that admits every request."""

    async def take(self, key_id: str) -> float:
        """Admits the request: 0 seconds to wait."""
        return 0.0

    async def close(self) -> None:
        """Does nothing, since nothing is open."""


class LocalRateLimiter:
    """Buckets in this process."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`rate` is in requests per second; `burst` is the size of a bucket."""
        self._rate, self._burst = rate, burst
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}

    async def take(self, key_id: str) -> float:
        """Count a request. The number of buckets is bounded, since only valid keys come this far."""
        now = self._clock()
        tokens, at = self._buckets.get(key_id, (float(self._burst), now))
        tokens = min(float(self._burst), tokens + (now - at) * self._rate)
        wait_s = 0.0 if tokens >= 1 else (1 - tokens) / self._rate
        self._buckets[key_id] = (tokens if wait_s else tokens - 1, now)
        return wait_s

    async def close(self) -> None:
        """Does nothing, since nothing is open."""
