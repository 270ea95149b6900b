"""Answers kept for a while, in Redis or in this process; a cache that fails is a miss, never an error."""

import hashlib
import json
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import redis.asyncio
from redis.exceptions import RedisError

log = logging.getLogger(__name__)

LARGEST = 64 * 1024  # bytes of an answer worth keeping; one with a hundred explanations is far larger


def cache_key(determines: Mapping[str, Any]) -> str:
    """Digest of everything an answer depends on."""
    text = json.dumps(determines, sort_keys=True, ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def ping(url: str) -> None:
    """Return when the Redis at `url` answers; OSError says why it does not."""
    try:
        with redis.Redis.from_url(url, socket_connect_timeout=1.0, socket_timeout=1.0) as client:
            client.ping()
    except (RedisError, ValueError) as fault:
        raise OSError(f"{url}: {fault}") from fault


class ResultCache(Protocol):
    """Bytes by key, for some time."""

    async def get(self, key: str) -> bytes | None:
        """The answer under `key`, if it is still there."""

    async def put(self, key: str, answer: bytes) -> None:
        """Keep `answer`."""

    async def close(self) -> None:
        """Let go of connections."""


class LocalCache:
    """A number of answers in this process; the least recently used go first."""

    def __init__(self, max_entries: int) -> None:
        self._max_entries = max_entries
        self._answers: OrderedDict[str, bytes] = OrderedDict()

    async def get(self, key: str) -> bytes | None:
        """The answer under `key`, which then counts as just used."""
        answer = self._answers.get(key)
        if answer is not None:
            self._answers.move_to_end(key)
        return answer

    async def put(self, key: str, answer: bytes) -> None:
        """Keep `answer`, unless it is very large."""
        self._answers.pop(key, None)
        if len(answer) <= LARGEST:
            self._answers[key] = answer
        while len(self._answers) > self._max_entries:
            self._answers.popitem(last=False)

    async def close(self) -> None:
        """Nothing is held open."""


class RedisCache:
    """Answers in Redis; after a failure it is left alone a while: a dead server costs one time-out."""

    def __init__(
        self,
        client: "redis.asyncio.Redis",
        seconds_kept: float,
        seconds_left_alone: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._seconds_kept = seconds_kept
        self._seconds_left_alone = seconds_left_alone
        self._clock = clock
        self._silent_until = float("-inf")

    @classmethod
    def connect(cls, url: str, seconds_kept: float, timeout: float = 0.1) -> "RedisCache":
        """A cache on the server at `url`; nothing is sent yet. `timeout` in seconds bounds every wait."""
        client = redis.asyncio.Redis.from_url(url, socket_connect_timeout=timeout, socket_timeout=timeout, retry=None)
        return cls(client, seconds_kept)

    async def get(self, key: str) -> bytes | None:
        """The answer under `key`; None also when Redis does not answer."""
        if self._clock() < self._silent_until:
            return None
        try:
            answer = await self._client.get(f"regard:answer:{key}")
        except (RedisError, OSError) as fault:
            self._leave_alone(fault)
            return None
        return answer if isinstance(answer, bytes) else None

    async def put(self, key: str, answer: bytes) -> None:
        """Keep `answer`, if Redis answers and unless it is very large."""
        if len(answer) > LARGEST or self._clock() < self._silent_until:
            return
        try:
            await self._client.set(f"regard:answer:{key}", answer, px=max(1, round(self._seconds_kept * 1000)))
        except (RedisError, OSError) as fault:
            self._leave_alone(fault)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    def _leave_alone(self, fault: Exception) -> None:
        log.warning("the result cache does not answer, going on without it: %s", fault)
        self._silent_until = self._clock() + self._seconds_left_alone
