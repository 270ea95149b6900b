"""Calls to one replica of each of several shards at once, within a deadline.

A replica that fails is followed by its sibling at once; one that takes longer than 95 of 100 calls did lately, by a
second request to the sibling (hedged requests, Dean and Barroso 2013), and the first answer counts.
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

REMEMBERED = 200  # calls of one kind, whose times say when a second request is due
FIRST_HEDGE_S = 0.5  # before there are enough of them
FEWEST_TIMES = 20
HEDGE_PERCENTILE = 95
UNAVAILABLE = 503
REST_S = 1.0  # a replica that failed is the last choice for so long
READ_DEADLINE_S = 15.0  # for lists and looks at pictures, which no search waits for

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

log = logging.getLogger(__name__)


class Replica(Protocol):
    """One copy of a shard, as a router reaches it."""

    @property
    def name(self) -> str:
        """The replica's name in logs and in `regard cluster status`."""

    def call(self, method: str, *arguments: Any) -> "Future[Any]":
        """Begin a call of the method of that name of ShardSearch, ShardLists or ShardNode (see ShardNode.ask). It fails
        with Problem where the request is at fault, and with anything else where the replica is."""


@dataclass
class Attempt:
    """The state of one shard's call: the replicas left to try, those that were asked and say nothing yet, the time of
    the last try, and the trouble that a replica told of."""

    shard: int
    method: str
    arguments: Sequence[Any]
    left: list[Replica]
    num_asked: int = 0
    asked_at: float = 0.0
    trouble: Problem | None = None


class CallTimes:
    """The durations of recent calls, by method. Safe from many threads."""

    def __init__(self) -> None:
        self._times: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=REMEMBERED))
        self._lock = threading.Lock()

    def add(self, method: str, seconds: float) -> None:
        """Remember the duration of a call."""
        with self._lock:
            self._times[method].append(seconds)

    def hedge_after(self, method: str) -> float:
        """Seconds after which a second request is due: the 95th percentile, once that is known."""
        with self._lock:
            times = sorted(self._times[method])
        return times[len(times) * HEDGE_PERCENTILE // 100] if len(times) >= FEWEST_TIMES else FIRST_HEDGE_S


@dataclass
class FanOut:
    """Asks shards. Safe from many threads; `replicas` may be exchanged at any time."""

    replicas: Sequence[Sequence[Replica]]
    """Of each shard."""
    deadline_s: float
    """Of a call that names no other."""
    clock: Callable[[], float] = time.monotonic
    times: CallTimes = field(default_factory=CallTimes)
    heard: Callable[[int], None] = lambda num_shards: None
    """Told how many shards there are, by a replica that knows of more."""
    threads: ThreadPoolExecutor = field(default_factory=partial(ThreadPoolExecutor, 16, "fan-out"))
    """For what is asked beside other work."""
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
        """Shard -> the answer of one of its replicas to a call with these arguments. `method` is one of those that
        Replica.call takes, as `ShardLists.page`.

        Shards without an answer by the deadline are left out. A Problem of any shard is raised; one that is the
        replica's own trouble (503), once no other replica of the shard is left. `chosen` has the names of the replicas
        that are asked first, and gets those that answered. Calls of one method that take unlike times have names of
        their own, `timed_as`.
        """
        started = self.clock()
        deadline = started + (self.deadline_s if deadline_s is None else deadline_s)
        answers, timed_as = dict[int, T](), timed_as or method.__name__
        chosen = {} if chosen is None else chosen
        attempts = [
            Attempt(shard, method.__name__, given, self._in_order(shard, chosen.get(shard)))
            for shard, given in arguments.items()
        ]
        running: dict[Future[Any], tuple[Attempt, Replica, float]] = {}
        for attempt in attempts:
            self._try_next(attempt, running)
        while running and (now := self.clock()) < deadline:
            hedge = self.times.hedge_after(timed_as)
            due = [one.asked_at + hedge for one in attempts if one.shard not in answers and one.left]
            done, _ = wait(running, max(0.0, min([deadline, *due]) - now), FIRST_COMPLETED)
            for future in done:
                attempt, replica, asked_at = running.pop(future)
                attempt.num_asked -= 1
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
        """Raise a Problem that no sibling would answer better; note any other fault of a call."""
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
        if attempt.trouble is not None and not (attempt.left or attempt.num_asked):
            raise attempt.trouble

    def ask_every(
        self, method: Callable[..., T], arguments: Mapping[int, Sequence[Any]], deadline_s: float | None = None
    ) -> dict[int, list[T]]:
        """Shard -> the answers of all its replicas that answer by the deadline."""
        running = {
            shard: [replica.call(method.__name__, *given) for replica in self.replicas[shard]]
            for shard, given in arguments.items()
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
        """The shard's replicas as they are to be tried: the chosen one first, those that failed of late last."""
        replicas = list(self.replicas[shard])
        first = next(self._turn) % max(1, len(replicas))
        now = self.clock()
        turned = replicas[first:] + replicas[:first]
        return sorted(
            turned, key=lambda one: (now - self._failed_at.get(one.name, float("-inf")) < REST_S, one.name != chosen)
        )

    def _try_next(self, attempt: Attempt, running: dict["Future[Any]", tuple[Attempt, Replica, float]]) -> None:
        """Ask the next replica of a shard, if one is left."""
        if not attempt.left:
            return
        replica, now = attempt.left.pop(0), self.clock()
        attempt.asked_at, attempt.num_asked = now, attempt.num_asked + 1
        running[replica.call(attempt.method, *attempt.arguments)] = attempt, replica, now

    def _overdue(self, attempts: Iterable[Attempt], answers: Collection[int], hedge: float) -> list[Attempt]:
        """Shards whose latest request is older than most calls take, and that have a replica left."""
        now = self.clock()
        return [one for one in attempts if one.shard not in answers and one.left and now - one.asked_at >= hedge]


def all_answers(
    fan_out: FanOut,
    method: Callable[..., T],
    arguments: Mapping[int, Sequence[Any]],
    chosen: dict[int, str] | None = None,
    deadline_s: float | None = None,
    timed_as: str = "",
) -> dict[int, T]:
    """Shard -> answer. ShardLost where one of these shards does not answer."""
    answers = fan_out.ask(method, arguments, chosen, deadline_s, timed_as)
    if missing := sorted(set(arguments) - set(answers)):
        raise ShardLost(f"Shard {missing[0]} does not answer; try again shortly.", missing)
    return answers


def every_shard(fan_out: FanOut, num_shards: int, method: Callable[[Any, *Ts], T], *arguments: *Ts) -> list[T]:
    """The answers of all shards to a call of one of ShardLists, in the order of the shards. ShardLost where one does
    not answer."""
    asked = dict.fromkeys(range(num_shards), arguments)
    answers = all_answers(fan_out, method, asked, deadline_s=READ_DEADLINE_S)
    return [answers[shard] for shard in asked]
