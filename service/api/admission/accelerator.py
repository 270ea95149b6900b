"""The queue of work for the accelerator, which admits callers up to a bound on the total cost of their work.

One thread owns the accelerator and does one piece of work at a time, or several at once that wait together and can be
done jointly. Where the accelerator is the processor, light work is done at once in its caller's thread, in parallel
with that of others: waking another thread would cost more than it saves.
"""

import asyncio
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

from service.errors import NotReady, Overloaded
from service.search.scoring.device_memory import without_memory
from service.search.scoring.joint_work import JointWork, done_together

T = TypeVar("T")

REMEMBERED_SHARE = 0.9  # of earlier measurements, in the decaying sums that estimate the speed
LONGEST_RETRY = 60  # seconds, so that clients retry within a minute even after a slow spell
SHUT_DOWN_S = 5  # after which another process should answer

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Entry:
    """Work waiting for the accelerator; its future is cancelled when the caller hangs up."""

    admission: "Admission | None"  # None: a probe
    work: Callable[[], Any]  # a JointWork where it can be done jointly
    future: "Future[Any]"
    last: bool  # whether the admission ends with it


class Admission:
    """A caller's place in the queue, from admission to `close`, for one or several pieces of work."""

    def __init__(self, queue: "AcceleratorQueue", cost: int) -> None:
        """Made by AcceleratorQueue.admit."""
        self.cost = cost
        self.seconds = 0.0  # spent by the accelerator
        self._queue = queue
        self._future: Future[Any] | None = None
        self._closed = False

    def becomes(self, cost: int) -> None:
        """Change the admission's cost. Overloaded where too much else is admitted."""
        self._queue._reassess(self, cost)

    def run(self, work: Callable[[], T], /) -> T:
        """The result of `work` on the accelerator; blocks. CancelledError once the admission is closed."""
        future: Future[T] = Future()
        self._future = future
        if self._closed:
            future.cancel()
            raise CancelledError
        self._queue._do_or_queue(Entry(self, work, future, last=False))
        return future.result()

    def close(self) -> None:
        """Give up the place: waiting work is cancelled, and running work counts until it ends."""
        self._closed = True
        future = self._future
        if future is None or future.cancel() or future.done():
            self._queue._release(self)
        else:
            future.add_done_callback(lambda _: self._queue._release(self))

    def __enter__(self) -> Self:
        """Return the admission, which the block holds."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the admission."""
        self.close()


class AcceleratorQueue:
    """A bounded first-in, first-out queue for the accelerator; joint work goes with the first of its group.

    Cost is candidates x regions x words x a factor of the model, plus encoding and finding regions in the same unit, so
    that one heavy query counts as many light ones. It counts from admission to the end, so that the bound covers both
    waiting and running work, also when its caller has hung up.
    """

    def __init__(
        self, max_cost: int, clock: Callable[[], float] = time.monotonic, light_cost: int | None = None
    ) -> None:
        """`max_cost` bounds the admitted cost; work of at most `light_cost` is done in its caller's thread."""
        self._max_cost = max_cost
        self._light_cost = light_cost
        self._clock = clock
        self._admitted: set[Admission] = set()
        self._waiting: deque[Entry] = deque()
        self._changed = threading.Condition()
        self._closed = False
        # Decaying sums of seconds spent and of the cost of that work; nothing is measured yet.
        self._recent_speed = 0.0, 4.0 * max_cost
        self._probe: Future[Any] | None = None
        self._begun: dict[Future[Any], float] = {}  # start times of the running work
        self._thread = threading.Thread(target=self._run, name="accelerator", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    @property
    def num_waiting(self) -> int:
        """The number of pieces of work that have not begun."""
        return len(self._waiting)

    @property
    def admitted_cost(self) -> int:
        """The total cost of all admissions."""
        with self._changed:
            return sum(admission.cost for admission in self._admitted)

    def admit(self, cost: int) -> Admission:
        """A place in the queue, to be closed. Overloaded where too much is admitted already."""
        with self._changed:
            self._require_place(cost)
            admission = Admission(self, cost)
            self._admitted.add(admission)
            return admission

    def check(self, cost: int) -> None:
        """Raise Overloaded where `admit` would, for callers that have other work to do first."""
        with self._changed:
            self._require_place(cost)

    def _reassess(self, admission: Admission, cost: int) -> None:
        """Change an admission's cost. Overloaded, without a change, where too much else is admitted."""
        with self._changed:
            self._require_room(cost, sum(other.cost for other in self._admitted if other is not admission))
            admission.cost = cost

    def _require_place(self, cost: int) -> None:
        self._require_open()
        self._require_room(cost, sum(admission.cost for admission in self._admitted))

    def _require_room(self, cost: int, admitted: int) -> None:
        # Work above the whole bound runs when nothing else is admitted, or it never would. Free work always runs.
        if cost and admitted and admitted + cost > self._max_cost:
            seconds = self._retry_after(admitted)
            raise Overloaded(
                f"The server is busy; send the same request again in {seconds} s. (Work of cost {admitted} waits;"
                f" REGARD_QUEUE_COST allows {self._max_cost}.)",
                retry_after=seconds,
            )

    async def submit(self, cost: int, work: Callable[[], T]) -> T:
        """The result of `work`, run on the accelerator's thread. Overloaded where too much is admitted already."""
        return await asyncio.wrap_future(self.enqueue(cost, work))

    def enqueue(self, cost: int, work: Callable[[], T]) -> "Future[T]":
        """The future result of `work`, which is queued. Overloaded as `submit`."""
        admission = self.admit(cost)
        future: Future[T] = Future()
        with self._changed:
            self._append(Entry(admission, work, future, last=True))
        future.add_done_callback(lambda done: admission.close() if done.cancelled() else None)
        return future

    def is_light(self, cost: int) -> bool:
        """Whether work of this cost is done in its caller's thread."""
        return self._light_cost is not None and cost <= self._light_cost

    def _do_or_queue(self, entry: Entry) -> None:
        """Do the entry's work in this thread where it is light; otherwise queue it."""
        with self._changed:
            if entry.admission is None or not self.is_light(entry.admission.cost):
                self._append(entry)
                return
            self._require_open()
            if not self._begin(entry):
                return
        self._do([entry])

    def _append(self, entry: Entry) -> None:
        self._require_open()
        self._waiting.append(entry)
        self._changed.notify()

    def _require_open(self) -> None:
        if self._closed:
            raise NotReady("The server is shutting down.", retry_after=SHUT_DOWN_S)

    def _begin(self, entry: Entry) -> bool:
        """Begin the entry's work, unless its caller has hung up."""
        if not entry.future.set_running_or_notify_cancel():
            return False
        self._begun[entry.future] = self._clock()
        return True

    def probe(self, work: Callable[[], T]) -> "Future[T]":
        """Run `work` ahead of the queue, at no cost; a probe that already waits is shared."""
        with self._changed:
            self._require_open()
            if self._probe is None or self._probe.done():
                self._probe = Future()
                self._waiting.appendleft(Entry(None, work, self._probe, last=False))
                self._changed.notify()
            return self._probe

    @property
    def busy_s(self) -> float:
        """The seconds that the oldest running work has taken so far; 0 where none runs."""
        with self._changed:
            return self._clock() - min(self._begun.values()) if self._begun else 0.0

    def _release(self, admission: Admission) -> None:
        """End an admission, unless it has ended already."""
        with self._changed:
            if admission not in self._admitted:
                return
            self._admitted.remove(admission)
            if admission.seconds:
                seconds, cost = (REMEMBERED_SHARE * part for part in self._recent_speed)
                self._recent_speed = seconds + admission.seconds, cost + admission.cost

    def close(self) -> None:
        """Finish running work, refuse waiting work, end the thread."""
        with self._changed:
            self._closed = True
            waiting = list(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
        for entry in waiting:
            if entry.future.set_running_or_notify_cancel():
                entry.future.set_exception(NotReady("The server shut down before this ran.", retry_after=SHUT_DOWN_S))
        if self._thread.is_alive():
            self._thread.join()
        with self._changed:
            self._changed.wait_for(lambda: not self._begun)

    def _retry_after(self, cost: int) -> int:
        """Whole seconds until work of this cost should be done, at the recent speed."""
        seconds, done = self._recent_speed  # sums, since cheap work takes long for its cost
        return max(1, min(LONGEST_RETRY, math.ceil(cost * seconds / done)))

    def _next(self) -> list[Entry]:
        """The next entry whose caller still waits, with those that can join it; none when the queue closes."""
        with self._changed:
            while True:
                while self._waiting:
                    entry = self._waiting.popleft()
                    if self._begin(entry):
                        return [entry, *self._companions(entry.work)]
                if self._closed:
                    return []
                self._changed.wait()

    def _companions(self, work: Callable[[], Any]) -> list[Entry]:
        """Waiting entries that can be done jointly with the work, removed from the queue."""
        if not isinstance(work, JointWork):
            return []
        taken, remaining = list[Entry](), deque[Entry]()
        for entry in self._waiting:
            joins = isinstance(entry.work, JointWork) and entry.work.group == work.group
            if not joins or len(taken) + 1 >= work.most:
                remaining.append(entry)
            elif entry.future.set_running_or_notify_cancel():
                taken.append(entry)
        self._waiting = remaining
        return taken

    def _run(self) -> None:
        while entries := self._next():
            self._do(entries)

    def _do(self, entries: Sequence[Entry]) -> None:
        """Do the work of entries, the first of which was begun, and settle their futures."""
        outcomes = outcomes_of(entries)
        with self._changed:
            seconds = self._clock() - self._begun.pop(entries[0].future)
            if self._closed:
                self._changed.notify_all()
        self._account(entries, seconds)
        for entry, (result, fault) in zip(entries, outcomes, strict=True):
            if fault is None:
                entry.future.set_result(result)
            else:
                entry.future.set_exception(fault)

    def _account(self, entries: Sequence[Entry], seconds: float) -> None:
        """Share the seconds by cost, and end the admissions whose last entry this was."""
        admissions = [entry.admission for entry in entries if entry.admission is not None]
        cost = max(1, sum(admission.cost for admission in admissions))
        for admission in admissions:
            admission.seconds += seconds * admission.cost / cost if len(admissions) > 1 else seconds
        for entry in entries:
            if entry.admission is not None and entry.last:
                self._release(entry.admission)


def outcomes_of(entries: Sequence[Entry]) -> list[tuple[Any, BaseException | None]]:
    """The result of each entry, or its fault, which concerns its caller alone.

    Overloaded where the device has no memory even for the work of one caller.
    """
    joint = [entry.work for entry in entries if isinstance(entry.work, JointWork)]
    if len(joint) > 1:
        try:
            return [(result, None) for result in done_together(joint)]
        except BaseException as fault:  # doing each alone shows whose it is
            log.debug("work of %d callers is done one by one: %s", len(entries), fault)
    outcomes: list[tuple[Any, BaseException | None]] = []
    for entry in entries:
        try:
            outcomes.append((entry.work(), None))
        except BaseException as fault:
            outcomes.append((None, without_memory(fault)))
    return outcomes
