"""Wake-ups through a Redis stream."""

import logging
import threading
import time
from collections.abc import Callable
from itertools import chain
from typing import Any

import redis

from index.records import Collection
from service.redis_answering import Answering, advice
from service.worker.wakeups import SWEEP_S

GROUP, CONSUMER = "worker", "writer"  # one writer, so one consumer
LONGEST_STREAM = 1000  # a wake-up says no more than "look": old ones are worth nothing
ANSWER_S = 0.5  # more is not spent on a Redis that does not answer: it is a convenience

log = logging.getLogger(__name__)


def stream_name(collection: Collection) -> str:
    """The Redis stream of a collection's wake-ups: several collections may share one Redis."""
    return f"regard:{collection.id}:jobs"


class RedisNotifier:
    """Tells the worker through a Redis stream; after a failure Redis is left alone a while, so that uploads do not wait
    for it one by one."""

    def __init__(self, url: str, collection: Collection, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream_name(collection)
        self._redis = _connect(url, ANSWER_S)
        self._answering = Answering("the worker looks for jobs by itself", clock)

    def wake(self) -> None:
        """Add an entry to the stream; a Redis that does not answer is logged."""
        if self._answering.is_left_alone():
            return
        try:
            self._redis.xadd(self._stream, {"look": ""}, maxlen=LONGEST_STREAM, approximate=True)
        except (redis.RedisError, OSError) as error:
            self._answering.failed(error)
        else:
            self._answering.succeeded()

    def close(self) -> None:
        """Close the connection."""
        self._redis.close()


class RedisWakeups:
    """Reads the stream as its group's only consumer; sweeps each second while Redis is away or has forgotten."""

    def __init__(self, url: str, collection: Collection) -> None:
        self._stream = stream_name(collection)
        self._redis = _connect(url, SWEEP_S + 5.0)  # longer than it blocks
        self._delivered: list[bytes] = []
        self._next = "0"  # first what was delivered before a death and never acknowledged
        self._away = False

    def wait(self, stop: threading.Event) -> None:
        """Return when the stream has an entry, or after SWEEP_S."""
        try:
            self._read()
        except (redis.RedisError, OSError) as error:
            if "NOGROUP" in str(error):
                self._make_group(stop)
            else:
                self._sweep_later(error, stop)
        else:
            self._away = False

    def _read(self) -> None:
        answer: Any = self._redis.xreadgroup(
            GROUP, CONSUMER, {self._stream: self._next}, count=LONGEST_STREAM, block=round(1000 * SWEEP_S)
        )
        if isinstance(answer, dict):  # where the address asks for RESP3: lists of entries by the name of the stream
            answer = [(name, chain.from_iterable(lists)) for name, lists in answer.items()]
        self._delivered += [entry for _, entries in answer for entry, _ in entries]
        self._next = ">"

    def _sweep_later(self, error: Exception, stop: threading.Event) -> None:
        if not self._away:
            log.warning("no wake-ups from Redis, looking each second instead: %s%s", error, advice(error))
        self._away = True
        self._delivered.clear()
        self._next = "0"
        stop.wait(SWEEP_S)

    def _make_group(self, stop: threading.Event) -> None:
        try:
            self._redis.xgroup_create(self._stream, GROUP, id="0", mkstream=True)
        except (redis.RedisError, OSError) as error:
            if "BUSYGROUP" not in str(error):  # away still, or full, which would be asked again at once
                self._sweep_later(error, stop)
        self._next = "0"

    def acknowledge(self) -> None:
        """Acknowledge what was delivered before the work that is done now."""
        if not self._delivered:
            return
        try:
            self._redis.xack(self._stream, GROUP, *self._delivered)
        except (redis.RedisError, OSError) as error:
            log.debug("wake-ups not acknowledged: %s", error)
            self._next = "0"  # so they are delivered again, which does no harm
        self._delivered.clear()

    def close(self) -> None:
        """Close the connection."""
        self._redis.close()


def _connect(url: str, answer_s: float) -> "redis.Redis":
    # Retries are ours to make: the client's own would hold up an upload for seconds.
    return redis.Redis.from_url(url, socket_timeout=answer_s, socket_connect_timeout=ANSWER_S, retry=None)
