"""A Redis that may not answer: after a failure it is skipped for a while, so that not every caller waits for it."""

import logging
import threading
import time
from collections.abc import Callable

from redis.exceptions import AuthenticationError, NoPermissionError

LEFT_ALONE_S = 2.0  # after a failure

PASSWORD_ADVICE = "; give the password in REGARD_REDIS_URL: redis://:PASSWORD@host:6379/0, or redis://USER:PASSWORD@..."

log = logging.getLogger(__name__)


def advice(fault: Exception) -> str:
    """The advice to add to an error of Redis; empty unless it is about the user or password."""
    if isinstance(fault, NoPermissionError):
        return "; the user in REGARD_REDIS_URL may not do that"
    return PASSWORD_ADVICE if isinstance(fault, AuthenticationError) else ""


class Answering:
    """Whether a Redis is worth asking. Safe to share between threads."""

    def __init__(self, without_it: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`without_it` says in the log what happens while it does not answer."""
        self._without_it, self._clock = without_it, clock
        self._lock = threading.Lock()
        self._left_alone_until = float("-inf")
        self._is_logged = False
        self.is_proven = False
        """Whether it answered the latest request."""

    def is_left_alone(self) -> bool:
        """Whether it failed a moment ago, and is to be skipped."""
        return self._clock() < self._left_alone_until

    def succeeded(self) -> None:
        """Record a success; the first one after a failure is logged."""
        if self.is_proven:
            return
        with self._lock:
            was_logged, self._is_logged, self.is_proven = self._is_logged, False, True
        if was_logged:
            log.warning("Redis answers again")

    def failed(self, fault: Exception) -> None:
        """Skip it for a while; the first failure after a success is logged."""
        with self._lock:
            was_logged, self._is_logged, self.is_proven = self._is_logged, True, False
            self._left_alone_until = self._clock() + LEFT_ALONE_S
        if not was_logged:
            log.warning("Redis does not answer, %s: %s%s", self._without_it, fault, advice(fault))
