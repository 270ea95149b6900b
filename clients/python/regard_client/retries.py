"""Repeats of a request: after 429 and 503, if the server says when, and where it is away; not for ever."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from regard_client.errors import RegardError, ServerUnreachable

BUSY = (429, 503)
NOT_READY = "not-ready"  # the kind of such a problem
LONGEST_PAUSE_S = 15.0  # between two tries to reach a server that is away
OnWait = Callable[[RegardError, float], None]  # told of each pause: why, and how many seconds


@dataclass(frozen=True, kw_only=True)
class Retries:
    """The most often that one request is sent, and the most seconds that all its pauses may last together.

    `away_s` is the most seconds to pause for a server that has answered this client and cannot be reached any more, as
    while it is started again, not for one that hangs. A request whose answer is lost is then sent twice, but for
    deletions and `retry`, which would be refused the second time. `not_ready_s` is the most seconds to pause for a
    server that lacks something, such as its disk: one that is overloaded, or asked too often, is not among them.
    """

    most_sends: int = 20
    longest_wait_s: float = 120.0
    away_s: float = 0.0
    not_ready_s: float = math.inf


ONCE, PATIENT = Retries(most_sends=1), Retries()


def wait_in_silence(reason: RegardError, seconds: float) -> None:
    """Tell nobody of a pause."""


class Tries:
    """The sends of one request: counts them and their pauses."""

    def __init__(self, retries: Retries, twice: bool = True) -> None:
        """None was sent yet; `twice`: whether it may be sent again where the server may have done it already."""
        self._retries = retries
        self._twice = twice
        self._sends = 0
        self._waited_s = 0.0
        self._away_s = 0.0
        self._not_ready_s = 0.0

    def pause(self, status: int, headers: Mapping[str, str], kind: str | None = None) -> float | None:
        """Seconds to wait before the request is sent again after such an answer, whose problem is of that kind; None
        where this answer is the last."""
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
        """Seconds to wait before a server that has answered and could not be reached now is tried again: a second, then
        as long as it is away already. None where it was waited for long enough, hangs, or may have done it."""
        if fault.hangs or (fault.arrived and not self._twice):
            return None
        seconds = min(max(1.0, self._away_s), LONGEST_PAUSE_S)
        if self._away_s + seconds > self._retries.away_s:
            return None
        self._away_s += seconds
        return seconds


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds that the header Retry-After names, also as a date; None where it names none.

    A date is compared with the server's own clock in the header Date, so that it does not matter what time it is here.
    """
    named = headers.get("retry-after", "").strip()
    if named.isascii() and named.isdecimal():
        return float(named)
    try:
        then, now = parsedate_to_datetime(named), parsedate_to_datetime(headers.get("date", ""))
        return max(0.0, (then - now).total_seconds())
    except (TypeError, ValueError):  # no date, or one without a zone beside one with a zone
        return None
