"""The accelerator does one piece of work at a time; callers are admitted to it up to a bound on the cost of what they
ask for.

Work of several callers that can be done together, and waits at the same time, is done together, by a thread that owns
the accelerator. Where that is the processor, light work is done at once in the caller's own thread, as many pieces
side by side as there are such callers: to wake other threads for it, and to be woken by them, takes longer than they
save.
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

REMEMBERED_SHARE = 0.9  # of what was spent, when the next work has ended
LONGEST_RETRY = 60  # seconds; a client should look again within a minute even after a slow spell
SHUT_DOWN_S = 5  # after which another process may answer

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Entry:
    """Work waiting for the accelerator; its future is cancelled when the caller hangs up."""

    admission: "Admission | None"  # None: a probe
    work: Callable[[], Any]  # JointWork where it can be done with that of others
    future: "Future[Any]"
    last: bool  # the admission ends with it


class Admission:
    """A caller's place in the queue, from admission to `close`: work may be run in several steps meanwhile."""

    def __init__(self, queue: "AcceleratorQueue", cost: int) -> None:
        """Use AcceleratorQueue.admit."""
        self.cost = cost
        self.seconds = 0.0  # spent by the accelerator
        self._queue = queue
        self._future: Future[Any] | None = None
        self._closed = False

    def becomes(self, cost: int) -> None:
        """Count as work of this cost from now on. Overloaded when too much else is admitted."""
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
        """Give the place up; work that has not begun never will, and what runs counts until it ends."""
        self._closed = True
        future = self._future
        if future is None or future.cancel() or future.done():
            self._queue._release(self)
        else:
            future.add_done_callback(lambda _: self._queue._release(self))

    def __enter__(self) -> Self:
        """Return the admission, which the block then holds."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give back what was admitted; see `close`."""
        self.close()


class AcceleratorQueue:
    """A bounded queue in front of the accelerator, which does work in the order it comes; joint work goes with the
    first of its group.

    Cost is candidates x regions x words x a factor of the model, and what encoding and finding regions take in the same
    unit, so that one heavy query counts as many light ones. It counts from admission to the end, so what runs is
    bounded with what waits, also when its caller has hung up.
    """

    def __init__(
        self, max_cost: int, clock: Callable[[], float] = time.monotonic, light_cost: int | None = None
    ) -> None:
        """`max_cost` bounds the admitted cost; what costs at most `light_cost` is done in its caller's thread."""
        self._max_cost = max_cost
        self._light_cost = light_cost
        self._clock = clock
        self._admitted: set[Admission] = set()
        self._waiting: deque[Entry] = deque()
        self._changed = threading.Condition()
        self._closed = False
        # Seconds spent, and the cost of what they were spent on, that of before counting less; little is known so far.
        self._lately = 0.0, 4.0 * max_cost
        self._probe: Future[Any] | None = None
        self._begun: dict[Future[Any], float] = {}  # when each piece of work that runs now began
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
        """The pieces of work that have not begun."""
        return len(self._waiting)

    @property
    def admitted_cost(self) -> int:
        """Cost of everything that is admitted now."""
        with self._changed:
            return sum(admission.cost for admission in self._admitted)

    def admit(self, cost: int) -> Admission:
        """A place in the queue, to be closed. Overloaded when too much is admitted already."""
        with self._changed:
            self._require_place(cost)
            admission = Admission(self, cost)
            self._admitted.add(admission)
            return admission

    def check(self, cost: int) -> None:
        """Raise Overloaded where `admit` would: for callers with work of another kind to do before."""
        with self._changed:
            self._require_place(cost)

    def _reassess(self, admission: Admission, cost: int) -> None:
        """Change what an admission costs. Overloaded, and no change, when too much else is admitted."""
        with self._changed:
            self._require_room(cost, sum(other.cost for other in self._admitted if other is not admission))
            admission.cost = cost

    def _require_place(self, cost: int) -> None:
        self._require_open()
        self._require_room(cost, sum(admission.cost for admission in self._admitted))

    def _require_room(self, cost: int, admitted: int) -> None:
        # Work dearer than the whole bound still runs when it is alone: otherwise it never could. What is free always
        # does.
        if cost and admitted and admitted + cost > self._max_cost:
            seconds = self._retry_after(admitted)
            raise Overloaded(
                f"The server is busy; send the same request again in {seconds} s. (Work of cost {admitted} waits;"
                f" REGARD_QUEUE_COST allows {self._max_cost}.)",
                retry_after=seconds,
            )

    async def submit(self, cost: int, work: Callable[[], T]) -> T:
        """The result of `work`, run on the accelerator's thread. Overloaded when too much is admitted already."""
        return await asyncio.wrap_future(self.enqueue(cost, work))

    def enqueue(self, cost: int, work: Callable[[], T]) -> "Future[T]":
        """The future result of `work`, which is queued and not waited for. Overloaded as `submit`."""
        admission = self.admit(cost)
        future: Future[T] = Future()
        with self._changed:
            self._append(Entry(admission, work, future, last=True))
        future.add_done_callback(lambda ended: admission.close() if ended.cancelled() else None)
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
        """Run `work` before everything that waits, at no cost; a probe that waits already is shared."""
        with self._changed:
            self._require_open()
            if self._probe is None or self._probe.done():
                self._probe = Future()
                self._waiting.appendleft(Entry(None, work, self._probe, last=False))
                self._changed.notify()
            return self._probe

    @property
    def busy_s(self) -> float:
        """Seconds that the oldest work that runs now has been running; 0 where none does."""
        with self._changed:
            return self._clock() - min(self._begun.values()) if self._begun else 0.0

    def _release(self, admission: Admission) -> None:
        """End an admission; nothing happens when it has ended."""
        with self._changed:
            if admission not in self._admitted:
                return
            self._admitted.remove(admission)
            if admission.seconds:
                seconds, cost = (REMEMBERED_SHARE * one for one in self._lately)
                self._lately = seconds + admission.seconds, cost + admission.cost

    def close(self) -> None:
        """Finish what runs, turn away what waits, end the thread."""
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
        """Whole seconds until work of this cost should be done, judged by how fast work went lately."""
        seconds, done = self._lately  # a sum of each: what is cheap takes long for its cost
        return max(1, min(LONGEST_RETRY, math.ceil(cost * seconds / done)))

    def _next(self) -> list[Entry]:
        """The next entry whose caller still waits, and those that can be done with it; none when the queue closes."""
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
        """Waiting entries that can be done with the work, taken out of the queue; the others keep their order."""
        if not isinstance(work, JointWork):
            return []
        taken, left = list[Entry](), deque[Entry]()
        for entry in self._waiting:
            joins = isinstance(entry.work, JointWork) and entry.work.group == work.group
            if not joins or len(taken) + 1 >= work.most:
                left.append(entry)
            elif entry.future.set_running_or_notify_cancel():
                taken.append(entry)
        self._waiting = left
        return taken

    def _run(self) -> None:
        while entries := self._next():
            self._do(entries)

    def _do(self, entries: Sequence[Entry]) -> None:
        """Do the work of entries, the first of which was begun, and tell their callers."""
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
        """Share the seconds by cost, and end the admissions that end with these entries."""
        admissions = [entry.admission for entry in entries if entry.admission is not None]
        cost = max(1, sum(admission.cost for admission in admissions))
        for admission in admissions:
            admission.seconds += seconds * admission.cost / cost if len(admissions) > 1 else seconds
        for entry in entries:
            if entry.admission is not None and entry.last:
                self._release(entry.admission)


def outcomes_of(entries: Sequence[Entry]) -> list[tuple[Any, BaseException | None]]:
    """The result of each entry, or its fault: whatever that is belongs to the caller who asked, and to nobody else.

    Overloaded where the device has no memory for the work of one caller alone.
    """
    joint = [entry.work for entry in entries if isinstance(entry.work, JointWork)]
    if len(joint) > 1:
        try:
            return [(result, None) for result in done_together(joint)]
        except BaseException as fault:  # whose it is shows when each is done alone
            log.debug("work of %d callers is done one by one: %s", len(entries), fault)
    outcomes: list[tuple[Any, BaseException | None]] = []
    for entry in entries:
        try:
            outcomes.append((entry.work(), None))
        except BaseException as fault:
            outcomes.append((None, without_memory(fault)))
    return outcomes
