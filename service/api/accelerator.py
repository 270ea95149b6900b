"""One thread owns the accelerator; callers hand it work and wait without blocking the event loop."""

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from service.errors import NotReady, Overloaded

T = TypeVar("T")

LONGEST_RETRY = 60  # seconds; a client should look again within a minute even after a slow spell


@dataclass(frozen=True)
class Entry:
    """Work waiting for the accelerator; its future is cancelled when the caller hangs up."""

    cost: int
    work: Callable[[], Any]
    future: "Future[Any]"


class Batcher:
    """A bounded queue in front of one thread: what waits is run at once, in order, and never beyond a cost.

    Cost is candidates x regions x words, padding included, so that one heavy query counts as many light ones.
    """

    def __init__(self, max_cost: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_cost = max_cost
        self._clock = clock
        self._waiting: deque[Entry] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._seconds_per_cost = 0.0
        self._thread = threading.Thread(target=self._run, name="accelerator", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    @property
    def waiting_cost(self) -> int:
        """Cost of everything that waits now."""
        with self._changed:
            return sum(entry.cost for entry in self._waiting if not entry.future.cancelled())

    async def submit(self, cost: int, work: Callable[[], T]) -> T:
        """The result of `work`, run on the accelerator's thread. Overloaded when too much waits already."""
        return await asyncio.wrap_future(self.enqueue(cost, work))

    def enqueue(self, cost: int, work: Callable[[], T]) -> "Future[T]":
        """`submit` for callers without an event loop."""
        future: Future[T] = Future()
        with self._changed:
            if self._closed:
                raise NotReady("The server is shutting down.", headers={"Retry-After": "5"})
            waiting = sum(entry.cost for entry in self._waiting if not entry.future.cancelled())
            # Work dearer than the whole bound still runs when it is alone: otherwise it never could.
            if waiting and waiting + cost > self._max_cost:
                raise Overloaded(
                    f"Work of cost {waiting} waits and the queue takes {self._max_cost}; try again shortly.",
                    self._retry_after(waiting),
                )
            self._waiting.append(Entry(cost, work, future))
            self._changed.notify()
        return future

    def close(self) -> None:
        """Finish what runs, turn away what waits, end the thread."""
        with self._changed:
            self._closed = True
            waiting = list(self._waiting)
            self._waiting.clear()
            self._changed.notify()
        for entry in waiting:
            if entry.future.set_running_or_notify_cancel():
                problem = NotReady("The server shut down before this ran.", headers={"Retry-After": "5"})
                entry.future.set_exception(problem)
        if self._thread.is_alive():
            self._thread.join()

    def _retry_after(self, waiting: int) -> int:
        """Whole seconds until what waits should be done, judged by how fast work went lately."""
        return max(1, min(LONGEST_RETRY, math.ceil(waiting * self._seconds_per_cost)))

    def _next(self) -> Entry | None:
        """The next entry whose caller still waits; None when the batcher closes."""
        with self._changed:
            while True:
                while self._waiting:
                    entry = self._waiting.popleft()
                    if entry.future.set_running_or_notify_cancel():
                        return entry
                if self._closed:
                    return None
                self._changed.wait()

    def _run(self) -> None:
        while (entry := self._next()) is not None:
            started = self._clock()
            try:
                result = entry.work()
            except BaseException as fault:  # whatever it is belongs to the caller who asked, and to nobody else
                entry.future.set_exception(fault)
            else:
                entry.future.set_result(result)
            spent = (self._clock() - started) / max(entry.cost, 1)
            self._seconds_per_cost += 0.2 * (spent - self._seconds_per_cost)
