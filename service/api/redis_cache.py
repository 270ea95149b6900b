"""A cache of answers in Redis.

Several collections, and several releases of this program, may share one Redis, so keys name the collection and the
format of the answer. Anyone who can write to that Redis could forge answers, so they are signed with the collection's
secret.
"""

import hmac
import threading
import time
from collections.abc import Callable
from typing import Any

import redis
from redis.exceptions import RedisError

from index.records import Collection
from service.api.cache import LARGEST
from service.redis_answering import Answering, advice
from service.redis_url import without_password

SIGNATURE_BYTES = 32


def ping(url: str) -> None:
    """Return once the Redis at `url` answers; OSError says why it does not."""
    try:
        with redis.Redis.from_url(url, socket_connect_timeout=1.0, socket_timeout=1.0) as client:
            client.ping()
    except (RedisError, ValueError) as fault:
        raise OSError(f"{without_password(url)}: {without_password(str(fault), url)}{advice(fault)}") from fault


class RedisCache:
    """Answers in Redis, which is not used for a while after a failure, so that a dead server costs one time-out.

    Until the server has answered once, only one thread at a time calls it; for all others, every look-up is a miss.
    """

    keeps_any = True

    def __init__(
        self,
        client: "redis.Redis",
        seconds_kept: float,
        collection: Collection,
        answer_format: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`answer_format` names the format of the answers, and is a part of their keys."""
        self._client = client
        self._prefix = f"regard:{collection.id}:answer:{answer_format}:"
        self._secret = collection.secret
        self._seconds_kept = seconds_kept
        self._redis = Answering("answers are found anew each time", clock)
        self._first = threading.Lock()

    @classmethod
    def connect(
        cls, url: str, seconds_kept: float, collection: Collection, answer_format: str, timeout: float = 0.1
    ) -> "RedisCache":
        """A cache on the server at `url`; nothing is sent yet. `timeout` in seconds bounds every wait except for name
        resolution."""
        client = redis.Redis.from_url(url, socket_connect_timeout=timeout, socket_timeout=timeout, retry=None)
        return cls(client, seconds_kept, collection, answer_format)

    def get(self, key: str) -> bytes | None:
        """The answer under `key`; None also where Redis does not answer, or the signature is wrong."""
        stored = self._reply(lambda: self._client.get(self._prefix + key))
        if not isinstance(stored, bytes):
            return None
        signature, answer = stored[:SIGNATURE_BYTES], stored[SIGNATURE_BYTES:]
        return answer if hmac.compare_digest(signature, self._signature(key, answer)) else None

    def put(self, key: str, answer: bytes) -> None:
        """Cache `answer`, if Redis answers and unless it is very large."""
        if len(answer) > LARGEST:
            return
        signed, milliseconds = self._signature(key, answer) + answer, max(1, round(self._seconds_kept * 1000))
        self._reply(lambda: self._client.set(self._prefix + key, signed, px=milliseconds))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _reply(self, call: Callable[[], Any]) -> Any:
        """The reply of Redis; None where it does not answer, or is not called."""
        is_first = not self._redis.is_proven
        if self._redis.is_left_alone() or (is_first and not self._first.acquire(blocking=False)):
            return None
        try:
            reply = call()
            self._redis.succeeded()
            return reply
        except (RedisError, OSError) as fault:
            self._redis.failed(fault)
            return None
        finally:
            if is_first:
                self._first.release()

    def _signature(self, key: str, answer: bytes) -> bytes:
        return hmac.digest(self._secret, f"{self._prefix}{key}\0".encode() + answer, "sha256")
