"""The wait for a job: the states received so far, and its end."""

import time
from collections.abc import Callable

from regard_client.answers import JobAnswer
from regard_client.errors import JobUnfinished


class JobWait:
    """The wait for a job until it is done, or until its time is up."""

    def __init__(
        self,
        job_id: str,
        seconds_between: float,
        timeout_s: float | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`timeout_s` bounds it in all; None for no bound."""
        self._job_id = job_id
        self._between_s = seconds_between
        self._timeout_s = timeout_s
        self._clock, self._began = clock, clock()
        self._told: JobAnswer | None = None

    def is_news(self, state: JobAnswer) -> bool:
        """Whether the state differs from the one that was asked about before."""
        before, self._told = self._told, state
        return state != before

    def pause(self) -> float:
        """Seconds until the job is asked for again; JobUnfinished where that would be too long."""
        waited_s = self._clock() - self._began + self._between_s
        if self._timeout_s is not None and waited_s > self._timeout_s:
            raise JobUnfinished(f"job {self._job_id} was not done within {self._timeout_s:g} s; it goes on")
        return self._between_s
