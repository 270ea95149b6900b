"""Bounded repeats of a request: after 429 and 503 with Retry-After, and while the server cannot be reached."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from regard_client.errors import RegardError, ServerUnreachable

BUSY = (429, 503)
NOT_READY = "not-ready"  # the kind of problem of a server that lacks something
LONGEST_PAUSE_S = 15.0  # between two attempts to reach a server that is away
OnWait = Callable[[RegardError, float], None]  # called before each pause with its reason and seconds


@dataclass(frozen=True, kw_only=True)
class Retries:
    """Bounds on the number of times that one request is sent, and on the total seconds of its pauses.

    `away_s` bounds the pauses for a server that answered this client before and cannot be reached now, such as during a
    restart, but does not hang. A request whose answer is lost is then sent again, except deletions and `retry`, which
    would be refused the second time. `not_ready_s` bounds the pauses for a server that lacks something, such as its
    disk; overload and rate limits do not count.
    """

    most_sends: int = 20
    longest_wait_s: float = 120.0
    away_s: float = 0.0
    not_ready_s: float = math.inf


ONCE, PATIENT = Retries(most_sends=1), Retries()


def wait_in_silence(reason: RegardError, seconds: float) -> None:
    """The default `on_wait`, which does nothing."""


class Tries:
    """A counter of one request's sends and pauses."""

    def __init__(self, retries: Retries, twice: bool = True) -> None:
        """Start counting; `twice` says whether the request may be repeated if the server may have done it already."""
        self._retries = retries
        self._twice = twice
        self._sends = 0
        self._waited_s = 0.0
        self._away_s = 0.0
        self._not_ready_s = 0.0

    def pause(self, status: int, headers: Mapping[str, str], kind: str | None = None) -> float | None:
        """Seconds to wait before the request is repeated after an answer whose problem is of that kind; None if it is
        not repeated."""
        self._sends += 1
        if status not in BUSY or self._sends >= self._retries.most_sends:
            return None
        seconds = retry_after(headers)
        if seconds is None or self._waited_s + seconds > self._retries.longest_wait_s:
            return None
        self._not_ready_s += seconds if kind == NOT_READY else 0.0
        if self._not_ready_s > self._retries.not_ready_s:
            return None
        self._waited_s += seconds
        return seconds

    def pause_while_away(self, fault: ServerUnreachable) -> float | None:
        """Seconds to wait before an unreachable server is tried again: one, then as many as it has been away.

        None if that exceeds the bound, if the server hangs, or if it may have done what must not be done twice.
        """
        if fault.hangs or (fault.arrived and not self._twice):
            return None
        seconds = min(max(1.0, self._away_s), LONGEST_PAUSE_S)
        if self._away_s + seconds > self._retries.away_s:
            return None
        self._away_s += seconds
        return seconds


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds of the header Retry-After, which may be a date; None without a valid one.

    A date is compared with the server's clock in the header Date, so that this machine's clock does not matter.
    """
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdecimal():
        return float(value)
    try:
        then, now = parsedate_to_datetime(value), parsedate_to_datetime(headers.get("date", ""))
        return max(0.0, (then - now).total_seconds())
    except (TypeError, ValueError):  # no date, or only one of the two has a zone
        return None
