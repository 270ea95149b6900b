"""Token buckets in Redis, which all processes of a service share."""

import asyncio
import time
from collections.abc import Callable

import redis.asyncio
from redis.exceptions import RedisError

from service.api.admission.rate_limits import LocalRateLimiter
from service.redis_answering import Answering

ASKED_AT_ONCE = 4  # connections, since a call takes a fraction of a millisecond; more would only all time out

# Redis runs a script atomically, and its clock is the same for all processes.
# KEYS: the bucket. ARGV: requests a second, size of the bucket. Returns the seconds to wait, as text; 0 when admitted.
TAKE = """
local rate, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local since = math.max(0, now - (tonumber(bucket[2]) or now))
local tokens = math.min(burst, (tonumber(bucket[1]) or burst) + since * rate)
local wait = 0
if tokens >= 1 then tokens = tokens - 1 else wait = (1 - tokens) / rate end
redis.call('HSET', KEYS[1], 'tokens', tostring(tokens), 'at', string.format('%.6f', now))
redis.call('PEXPIRE', KEYS[1], math.ceil(1000 * burst / rate) + 1000)
return tostring(wait)
"""


class RedisRateLimiter:
    """Buckets in Redis. For a while after a failure, buckets in this process are used instead."""

    def __init__(
        self,
        client: "redis.asyncio.Redis",
        rate: float,
        burst: int,
        clock: Callable[[], float],
    ) -> None:
        self._client = client
        self._script = client.register_script(TAKE)
        self._arguments = (rate, burst)
        self._local = LocalRateLimiter(rate, burst, clock)
        self._redis = Answering("requests of a key are counted in each process", clock)
        self._at_once = asyncio.Semaphore(ASKED_AT_ONCE)

    @classmethod
    def connect(
        cls, url: str, rate: float, burst: int, timeout: float = 0.1, clock: Callable[[], float] = time.monotonic
    ) -> "RedisRateLimiter":
        """A limiter on the server at `url`; nothing is sent yet. `timeout` in seconds bounds every wait."""
        client = redis.asyncio.Redis.from_url(url, socket_connect_timeout=timeout, socket_timeout=timeout, retry=None)
        return cls(client, rate, burst, clock)

    async def take(self, key_id: str) -> float:
        """Count a request, in Redis if it answers."""
        async with self._at_once:
            wait_s = None if self._redis.is_left_alone() else await self._take_in_redis(key_id)
        return await self._local.take(key_id) if wait_s is None else wait_s

    async def _take_in_redis(self, key_id: str) -> float | None:
        """The seconds to wait by the bucket in Redis; None where it does not answer."""
        try:
            # The id is random, so no two services on one Redis have the same bucket.
            wait_s = float(await self._script(keys=[f"regard:rate:{key_id}"], args=self._arguments))
        except (RedisError, OSError) as fault:
            self._redis.failed(fault)
            return None
        self._redis.succeeded()
        return wait_s

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()
