"""Calls to one replica of each of several shards at once, within a deadline.

Where a replica fails, its sibling is asked at once. Where it takes longer than 95 % of recent calls, the sibling is
asked as well, and the first answer counts (hedged requests, Dean and Barroso 2013).
"""

import itertools
import logging
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar, TypeVarTuple

from service.cluster.messages import NewerPlacement, ShardLost
from service.errors import Problem

REMEMBERED = 200  # durations of calls of one kind, which decide when a hedged request is due
FIRST_HEDGE_S = 0.5  # until FEWEST_TIMES durations are known
FEWEST_TIMES = 20
HEDGE_PERCENTILE = 95
UNAVAILABLE = 503
REST_S = 1.0  # for which a replica that failed is the last choice
READ_DEADLINE_S = 15.0  # for lists and reads of single pictures, which no search waits for

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

log = logging.getLogger(__name__)


class Replica(Protocol):
    """One copy of a shard, as a router reaches it."""

    @property
    def name(self) -> str:
        """The replica's name in logs and in `regard cluster status`."""

    def call(self, method: str, *arguments: Any) -> "Future[Any]":
        """Begin a call of a method of ShardSearch, ShardLists or ShardNode, by name (see ShardNode.ask). It fails with
        Problem where the request is at fault, and with another exception where the replica is."""


@dataclass
class Attempt:
    """The state of one shard's call: the replicas left to try, the number of pending requests, the time of the last
    request, and the Problem that a replica reported about itself."""

    shard: int
    method: str
    arguments: Sequence[Any]
    untried: list[Replica]
    num_pending: int = 0
    asked_at: float = 0.0
    trouble: Problem | None = None


class CallTimes:
    """The durations of recent calls, by method. Thread-safe."""

    def __init__(self) -> None:
        self._times: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=REMEMBERED))
        self._lock = threading.Lock()

    def add(self, method: str, seconds: float) -> None:
        """Record the duration of a call."""
        with self._lock:
            self._times[method].append(seconds)

    def hedge_after(self, method: str) -> float:
        """Seconds after which a hedged request is due: the 95th percentile, once that is known."""
        with self._lock:
            times = sorted(self._times[method])
        return times[len(times) * HEDGE_PERCENTILE // 100] if len(times) >= FEWEST_TIMES else FIRST_HEDGE_S


@dataclass
class FanOut:
    """Calls shards. Thread-safe; `replicas` may be replaced at any time."""

    replicas: Sequence[Sequence[Replica]]
    """The replicas of each shard."""
    deadline_s: float
    """The default deadline of a call."""
    clock: Callable[[], float] = time.monotonic
    times: CallTimes = field(default_factory=CallTimes)
    heard: Callable[[int], None] = lambda num_shards: None
    """Called with the number of shards when a replica reports more of them."""
    threads: ThreadPoolExecutor = field(default_factory=partial(ThreadPoolExecutor, 16, "fan-out"))
    """Threads for calls in the background."""
    _turn: "itertools.count[int]" = field(default_factory=itertools.count)
    _failed_at: dict[str, float] = field(default_factory=dict)

    def ask(
        self,
        method: Callable[..., T],
        arguments: Mapping[int, Sequence[Any]],
        chosen: dict[int, str] | None = None,
        deadline_s: float | None = None,
        timed_as: str = "",
    ) -> dict[int, T]:
        """Shard -> the answer of one of its replicas to a call with these arguments. `method` is one that Replica.call
        takes, such as `ShardLists.page`.

        Shards without an answer by the deadline are left out. A Problem of any shard is raised, but one of the replica
        itself (503) only once no other replica of the shard is left. `chosen` names the replicas to ask first, and is
        updated with those that answered. `timed_as` separates the durations of calls of one method that differ in
        kind.
        """
        started = self.clock()
        deadline = started + (self.deadline_s if deadline_s is None else deadline_s)
        answers, timed_as = dict[int, T](), timed_as or method.__name__
        chosen = {} if chosen is None else chosen
        attempts = [
            Attempt(shard, method.__name__, call_arguments, self._in_order(shard, chosen.get(shard)))
            for shard, call_arguments in arguments.items()
        ]
        running: dict[Future[Any], tuple[Attempt, Replica, float]] = {}
        for attempt in attempts:
            self._try_next(attempt, running)
        while running and (now := self.clock()) < deadline:
            hedge = self.times.hedge_after(timed_as)
            due = [attempt.asked_at + hedge for attempt in attempts if attempt.shard not in answers and attempt.untried]
            done, _ = wait(running, max(0.0, min([deadline, *due]) - now), FIRST_COMPLETED)
            for future in done:
                attempt, replica, asked_at = running.pop(future)
                attempt.num_pending -= 1
                if attempt.shard in answers:
                    continue
                fault = future.exception()
                if fault is None:
                    answers[attempt.shard] = future.result()
                    chosen[attempt.shard] = replica.name
                    self.times.add(timed_as, self.clock() - asked_at)
                else:
                    self._note(fault, attempt, replica)
                    self._try_next(attempt, running)
            if len(answers) == len(attempts):
                break
            for attempt in self._overdue(attempts, answers, hedge):
                self._try_next(attempt, running)
        return answers

    def _note(self, fault: BaseException, attempt: Attempt, replica: Replica) -> None:
        """Raise a Problem that a sibling would answer in the same way; note any other fault of a call."""
        if isinstance(fault, NewerPlacement):
            self.heard(fault.num_shards)
            raise fault
        if not isinstance(fault, Problem):
            log.info("%s does not answer %s: %s", replica.name, attempt.method, fault)
            self._failed_at[replica.name] = self.clock()
        elif fault.status == UNAVAILABLE:
            attempt.trouble = fault
        else:
            raise fault
        if attempt.trouble is not None and not (attempt.untried or attempt.num_pending):
            raise attempt.trouble

    def ask_every(
        self, method: Callable[..., T], arguments: Mapping[int, Sequence[Any]], deadline_s: float | None = None
    ) -> dict[int, list[T]]:
        """Shard -> the answers of all its replicas that answer by the deadline."""
        running = {
            shard: [replica.call(method.__name__, *call_arguments) for replica in self.replicas[shard]]
            for shard, call_arguments in arguments.items()
        }
        deadline_s = self.deadline_s if deadline_s is None else deadline_s
        done, _ = wait([future for futures in running.values() for future in futures], deadline_s)
        for future in done:
            if isinstance(fault := future.exception(), NewerPlacement):
                self.heard(fault.num_shards)
        return {
            shard: [future.result() for future in futures if future in done and future.exception() is None]
            for shard, futures in running.items()
        }

    def _in_order(self, shard: int, chosen: str | None) -> list[Replica]:
        """The shard's replicas in the order to try them: the chosen one first, those that failed recently last."""
        replicas = list(self.replicas[shard])
        first = next(self._turn) % max(1, len(replicas))
        now = self.clock()
        rotated = replicas[first:] + replicas[:first]
        rests = {replica.name: now - self._failed_at.get(replica.name, float("-inf")) < REST_S for replica in replicas}
        return sorted(rotated, key=lambda replica: (rests[replica.name], replica.name != chosen))

    def _try_next(self, attempt: Attempt, running: dict["Future[Any]", tuple[Attempt, Replica, float]]) -> None:
        """Ask the next replica of a shard, if one is left."""
        if not attempt.untried:
            return
        replica, now = attempt.untried.pop(0), self.clock()
        attempt.asked_at, attempt.num_pending = now, attempt.num_pending + 1
        running[replica.call(attempt.method, *attempt.arguments)] = attempt, replica, now

    def _overdue(self, attempts: Iterable[Attempt], answers: Collection[int], hedge: float) -> list[Attempt]:
        """The attempts whose latest request takes longer than most calls, and that have a replica left."""
        now = self.clock()
        waiting = [attempt for attempt in attempts if attempt.shard not in answers and attempt.untried]
        return [attempt for attempt in waiting if now - attempt.asked_at >= hedge]


def all_answers(
    fan_out: FanOut,
    method: Callable[..., T],
    arguments: Mapping[int, Sequence[Any]],
    chosen: dict[int, str] | None = None,
    deadline_s: float | None = None,
    timed_as: str = "",
) -> dict[int, T]:
    """Shard -> answer. Raises ShardLost where one of these shards does not answer."""
    answers = fan_out.ask(method, arguments, chosen, deadline_s, timed_as)
    if missing := sorted(set(arguments) - set(answers)):
        raise ShardLost(f"Shard {missing[0]} does not answer; try again shortly.", missing)
    return answers


def every_shard(fan_out: FanOut, num_shards: int, method: Callable[[Any, *Ts], T], *arguments: *Ts) -> list[T]:
    """The answers of all shards to a call of ShardLists, in their order. Raises ShardLost where one does not answer."""
    calls = dict.fromkeys(range(num_shards), arguments)
    answers = all_answers(fan_out, method, calls, deadline_s=READ_DEADLINE_S)
    return [answers[shard] for shard in calls]
