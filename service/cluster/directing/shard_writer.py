"""The single writer of a shard, which numbers its changes and has every live replica make them.

A change is acknowledged once every live replica has it on disk, and at least the quorum. A replica that fails is
dropped until it has caught up from a sibling. A writer that has just started, or does not know the outcome of a change,
asks all replicas for their positions and continues from the furthest.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from service.cluster.messages import SHARD_RETRY_S
from service.cluster.operations import Operation, written
from service.cluster.shards.journal import ORIGIN, Diverged, JournalEntry, Position
from service.cluster.shards.replica import Files
from service.errors import NotReady, Problem

POSITION_S = 5.0  # to read a replica's position, which waits for no disk
TURN_S = 20.0  # for which a change waits for those before it, so that callers are not held up
FOLLOW_LOOK_S = 0.5  # to wait for a replica that catches up; most lack little

log = logging.getLogger(__name__)


class WritableReplica(Protocol):
    """A replica as its shard's writer reaches it; calls fail with any exception where it does not answer."""

    @property
    def name(self) -> str:
        """The replica's name in logs."""

    def begin(self, method: str, *arguments: Any) -> "Future[Any]":
        """Begin a call: `position`, `apply`, `follow` (a sibling, by its number) or `join` (answer searches)."""


class MembersStore(Protocol):
    """Stores which replicas have every acknowledged change, over restarts of the writer."""

    def read(self) -> frozenset[int] | None:
        """The numbers of the members; None where none were written."""

    def write(self, members: frozenset[int]) -> None:
        """Write the numbers down durably."""


@dataclass(frozen=True)
class Membership:
    """The members: numbers of the replicas that have every change, and the number of the last change."""

    members: frozenset[int]
    position: Position


class ShardWriter:
    """Writes to the replicas of one shard. Thread-safe: changes take turns."""

    def __init__(
        self,
        shard: int,
        replicas: Sequence[WritableReplica],
        quorum: int,
        timeout_s: float,
        grace_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        members: MembersStore | None = None,
        turn_s: float = TURN_S,
    ) -> None:
        """A change needs at least `quorum` replicas, which have `timeout_s` seconds for it; it waits for its turn for
        `turn_s` seconds.

        For `grace_s` seconds all replicas are waited for, since one may have changes that the others lack.
        """
        self._shard, self._replicas, self._quorum, self._timeout_s = shard, list(replicas), quorum, timeout_s
        self._clock, self._patient_until = clock, clock() + grace_s
        self._store = members
        self._saved: frozenset[int] | None = None if members is None else members.read()
        self._following: dict[int, Future[Any]] = {}
        self._turn, self._turn_s = threading.Lock(), turn_s
        self._recoveries = 0
        self._members: set[int] = set()
        self._position = ORIGIN
        self._unsure = True  # whether a replica may have changes unknown to this writer

    def membership(self) -> Membership:
        """The replicas that have every change."""
        return Membership(frozenset(self._members), self._position)

    def write(self, operation: Operation, files: Files | None = None) -> tuple[int, Any]:
        """The number and the result of a change.

        NotReady where too few replicas are there, or acknowledge it; it may have been made then, and can be repeated.
        What the change raises in every replica is raised, and nothing has changed.
        """
        recoveries = self._recoveries
        with self._own_turn():
            needs_recovery = self._unsure or len(self._members) < self._quorum
            if needs_recovery and recoveries == self._recoveries:  # not if another caller did so meanwhile
                self._recover()
            if len(self._members) < self._quorum:
                raise self._too_few(len(self._members))
            entry = JournalEntry(self._position.sequence + 1, self._position.checksum, written(operation))
            outcomes = self._call(sorted(self._members), "apply", entry, files or {})
            acknowledged = {number for number, outcome in outcomes.items() if not isinstance(outcome, BaseException)}
            refused = [outcome for outcome in outcomes.values() if isinstance(outcome, Problem | ValueError)]
            if not acknowledged and len(refused) == len(outcomes):
                raise refused[0]
            self._drop(self._members - acknowledged, outcomes)
            if not acknowledged:
                self._unsure = True
                raise self._too_few(0)
            self._position = entry.position
            self._save_members(self._members)
            if len(acknowledged) < self._quorum:
                raise self._too_few(len(acknowledged))
            # The first result that is not None: a picture set aside in one replica alone is retried in that one alone.
            results = (outcomes[number] for number in sorted(acknowledged))
            return entry.sequence, next((result for result in results if result is not None), None)

    def tend(self) -> None:
        """Readmit replicas that are back: they catch up beside other changes first, and alone for the rest."""
        away = set(range(len(self._replicas))) - self._members
        if not away and not self._unsure:
            self._drop_restarted()
            return
        if self._members:
            self._begin_following(away, min(self._members))
            wait(self._following.values(), FOLLOW_LOOK_S)
            if self._following and not any(future.done() for future in self._following.values()):
                self._drop_restarted()  # they still catch up; recovering now would do no good
                return
        with self._own_turn():
            self._recover()

    @contextmanager
    def _own_turn(self) -> Iterator[None]:
        """The turn of one change or recovery. NotReady where those before it take too long."""
        if not self._turn.acquire(timeout=self._turn_s):
            raise NotReady(
                f"Shard {self._shard} is busy with other changes: send it again shortly.", retry_after=SHARD_RETRY_S
            )
        try:
            yield
        finally:
            self._turn.release()

    def _begin_following(self, away: set[int], sibling: int) -> None:
        """Have replicas catch up, except those that already do."""
        self._following = {number: future for number, future in self._following.items() if not future.done()}
        for number in away - set(self._following):
            self._following[number] = self._replicas[number].begin("follow", sibling)

    def _recover(self) -> None:
        """Find the furthest replica, have the others catch up from it, and let all of them answer searches."""
        self._recoveries += 1
        answers = self._call(range(len(self._replicas)), "position", timeout_s=POSITION_S)
        positions = {number: at for number, at in answers.items() if isinstance(at, Position)}
        waits = self._position == ORIGIN and self._clock() < self._patient_until and len(positions) < len(answers)
        if not positions or waits:
            self._members = set()
            return
        # Only a replica recorded as having every acknowledged change may lead.
        trusted = positions.keys() & self._saved if self._saved is not None else positions.keys()
        if not trusted:
            self._members = set()
            return
        leader = max(trusted, key=lambda number: (positions[number].sequence, number in self._members))
        if positions[leader].sequence < self._position.sequence:
            log.error("shard %d: no replica that is there has change %d", self._shard, self._position.sequence)
            self._members = set()
            return
        uneven = [number for number, at in positions.items() if at != positions[leader]]
        following = {number for number, future in list(self._following.items()) if not future.done()}
        behind = [number for number in uneven if number not in following]
        caught_up = self._call(behind, "follow", leader)
        even = [leader, *(number for number, at in caught_up.items() if at == positions[leader])]
        even += [number for number in positions if number not in uneven and number != leader]
        # A replica that comes back beside one that answers finds missing regions before it answers.
        stayed = self._members & set(even)
        joined = {
            number: outcome
            for number in even
            for outcome in self._call(
                [number], "join", positions[leader].sequence, number not in (stayed or {leader})
            ).values()
        }
        self._drop(set(behind) - set(even), caught_up)
        self._members = {number for number, outcome in joined.items() if not isinstance(outcome, BaseException)}
        self._position, self._unsure = positions[leader], False
        # Absent replicas that had every change still do, since none was acknowledged meanwhile.
        self._save_members(self._members | (self._saved or set()))

    def _save_members(self, members: Collection[int]) -> None:
        """Store which replicas have every acknowledged change."""
        if self._store is not None and members != self._saved:
            self._store.write(frozenset(members))
        self._saved = frozenset(members)

    def _drop_restarted(self) -> None:
        """Drop members that were restarted, which do not answer searches until they join again."""
        with self._own_turn():
            answers = self._call(sorted(self._members), "has_joined", timeout_s=POSITION_S)
            restarted = {number for number, joined in answers.items() if joined is not True}
            if restarted:
                self._members -= restarted
                self._recover()

    def _call(
        self, numbers: Sequence[int] | range, method: str, *arguments: Any, timeout_s: float = float("inf")
    ) -> dict[int, Any]:
        """Number -> result or exception of the replica, within `timeout_s` and the time for a change."""
        running = {number: self._replicas[number].begin(method, *arguments) for number in numbers}
        wait(running.values(), min(timeout_s, self._timeout_s))
        return {number: _outcome(future) for number, future in running.items()}

    def _drop(self, numbers: set[int], outcomes: dict[int, Any]) -> None:
        for number in numbers:
            outcome = outcomes.get(number)
            level = logging.ERROR if isinstance(outcome, Diverged) else logging.WARNING
            log.log(level, "shard %d: %s is out: %s", self._shard, self._replicas[number].name, outcome)
        self._members -= numbers

    def _too_few(self, count: int) -> NotReady:
        return NotReady(
            f"Shard {self._shard} needs {self._quorum} replicas for a change and has {count}: send it again shortly.",
            retry_after=SHARD_RETRY_S,
        )


def _outcome(future: "Future[Any]") -> Any:
    if not future.done():
        return TimeoutError("no answer in time")
    fault = future.exception()
    return future.result() if fault is None else fault
