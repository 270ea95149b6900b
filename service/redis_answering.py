"""A Redis that may not answer: it is then left alone for a while, so that not everybody waits for it in turn."""

import logging
import threading
import time
from collections.abc import Callable

from redis.exceptions import AuthenticationError, NoPermissionError

LEFT_ALONE_S = 2.0  # once it did not answer

PASSWORD_ADVICE = "; give the password in REGARD_REDIS_URL: redis://:PASSWORD@host:6379/0, or redis://USER:PASSWORD@..."

log = logging.getLogger(__name__)


def advice(fault: Exception) -> str:
    """The advice to add to what Redis said; empty but where it wants another user or password."""
    if isinstance(fault, NoPermissionError):
        return "; the user in REGARD_REDIS_URL may not do that"
    return PASSWORD_ADVICE if isinstance(fault, AuthenticationError) else ""


class Answering:
    """Whether a Redis is worth asking. Safe from many threads."""

    def __init__(self, without_it: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`without_it` tells in the log what is done while it does not answer."""
        self._without_it, self._clock = without_it, clock
        self._lock = threading.Lock()
        self._left_alone_until = float("-inf")
        self._is_told = False
        self.is_proven = False
        """Whether it did answer when it was asked last."""

    def is_left_alone(self) -> bool:
        """Whether it failed a moment ago."""
        return self._clock() < self._left_alone_until

    def succeeded(self) -> None:
        """Note that it answered; where it did not before, the log tells of it."""
        if self.is_proven:
            return
        with self._lock:
            was_told, self._is_told, self.is_proven = self._is_told, False, True
        if was_told:
            log.warning("Redis answers again")

    def failed(self, fault: Exception) -> None:
        """Leave it alone for a while; the log tells of the first failure since it answered."""
        with self._lock:
            was_told, self._is_told, self.is_proven = self._is_told, True, False
            self._left_alone_until = self._clock() + LEFT_ALONE_S
        if not was_told:
            log.warning("Redis does not answer, %s: %s%s", self._without_it, fault, advice(fault))
