"""The one writer of a shard: numbers its changes and has every live replica make them.

A change is acknowledged once every live replica has it on disk, and at least as many as the quorum asks for. A replica
that fails is out until it has caught up from a sibling. Where the writer itself is new, or does not know what became of
a change, it asks all replicas how far they are and goes on from the furthest.
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

POSITION_S = 5.0  # for a look at how far a replica is, which waits for no disk
TURN_S = 20.0  # a change waits so long for those before it; whoever asked has others to do
FOLLOW_LOOK_S = 0.5  # most replicas that come back lack little

log = logging.getLogger(__name__)


class WritableReplica(Protocol):
    """A replica as its shard's writer reaches it; calls fail with anything where it does not answer."""

    @property
    def name(self) -> str:
        """The replica's name in logs."""

    def begin(self, method: str, *arguments: Any) -> "Future[Any]":
        """Begin a call: `position`, `apply`, `follow` (a sibling, by its number) or `join` (answer searches)."""


class MembersStore(Protocol):
    """Remembers which replicas have every acknowledged change, also over a restart of the writer."""

    def read(self) -> frozenset[int] | None:
        """The numbers of the members; None where nothing was written down."""

    def write(self, members: frozenset[int]) -> None:
        """Write the numbers down durably."""


@dataclass(frozen=True)
class Membership:
    """The members: numbers of the replicas that have every change, and the number of the last change."""

    members: frozenset[int]
    position: Position


class ShardWriter:
    """Writes to the replicas of one shard. Safe from many threads: changes take turns."""

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
        """`quorum`: how many replicas a change needs at least; a replica has `timeout_s` seconds for it, and a change
        waits for `turn_s` seconds until it may begin.

        For `grace_s` seconds all replicas are waited for, since one that is not there yet may know of changes that the
        others lack.
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
        self._unsure = True  # whether a replica may have changes that this writer does not know of

    def membership(self) -> Membership:
        """The replicas that have every change."""
        return Membership(frozenset(self._members), self._position)

    def write(self, operation: Operation, files: Files | None = None) -> tuple[int, Any]:
        """Have the change made; its number, and what it returned.

        NotReady where too few replicas are there, or made it: it may then have been made, and can be sent again.
        Whatever the change raises in every replica is raised, and nothing has changed.
        """
        recoveries = self._recoveries
        with self._own_turn():
            needs_recovery = self._unsure or len(self._members) < self._quorum
            if needs_recovery and recoveries == self._recoveries:  # what was found out while this one waited holds
                self._recover()
            if len(self._members) < self._quorum:
                raise self._too_few(len(self._members))
            entry = JournalEntry(self._position.sequence + 1, self._position.checksum, written(operation))
            outcomes = self._call(sorted(self._members), "apply", entry, files or {})
            made = {number for number, outcome in outcomes.items() if not isinstance(outcome, BaseException)}
            refused = [outcome for outcome in outcomes.values() if isinstance(outcome, Problem | ValueError)]
            if not made and len(refused) == len(outcomes):
                raise refused[0]
            self._drop(self._members - made, outcomes)
            if not made:
                self._unsure = True
                raise self._too_few(0)
            self._position = entry.position
            self._save_members(self._members)
            if len(made) < self._quorum:
                raise self._too_few(len(made))
            # A picture may have been set aside in one replica alone, which then alone has something to try again.
            told = (outcomes[number] for number in sorted(made))
            return entry.sequence, next((outcome for outcome in told if outcome is not None), None)

    def tend(self) -> None:
        """Take replicas that are back in again: first what they miss, beside other changes; the last of it alone."""
        away = set(range(len(self._replicas))) - self._members
        if not away and not self._unsure:
            self._drop_restarted()
            return
        if self._members:
            self._begin_following(away, min(self._members))
            wait(self._following.values(), FOLLOW_LOOK_S)
            if self._following and not any(future.done() for future in self._following.values()):
                self._drop_restarted()  # the others are still at it; a second one beside it would do no good
                return
        with self._own_turn():
            self._recover()

    @contextmanager
    def _own_turn(self) -> Iterator[None]:
        """The turn of one change, or of a look at the replicas. NotReady where those before it take too long."""
        if not self._turn.acquire(timeout=self._turn_s):
            raise NotReady(
                f"Shard {self._shard} is busy with other changes: send it again shortly.", retry_after=SHARD_RETRY_S
            )
        try:
            yield
        finally:
            self._turn.release()

    def _begin_following(self, away: set[int], sibling: int) -> None:
        """Have replicas catch up, except those that are at it."""
        self._following = {number: future for number, future in self._following.items() if not future.done()}
        for number in away - set(self._following):
            self._following[number] = self._replicas[number].begin("follow", sibling)

    def _recover(self) -> None:
        """Find the furthest replica, have the others catch up from it, and let all of them answer."""
        self._recoveries += 1
        found = self._call(range(len(self._replicas)), "position", timeout_s=POSITION_S)
        positions = {number: at for number, at in found.items() if isinstance(at, Position)}
        waits = self._position == ORIGIN and self._clock() < self._patient_until and len(positions) < len(found)
        if not positions or waits:
            self._members = set()
            return
        # Who had not every acknowledged change when last heard of does not lead those who had.
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
        at_it = {number for number, future in list(self._following.items()) if not future.done()}
        behind = [number for number in uneven if number not in at_it]
        caught_up = self._call(behind, "follow", leader)
        even = [leader, *(number for number, at in caught_up.items() if at == positions[leader])]
        even += [number for number in positions if number not in uneven and number != leader]
        # A replica that comes back beside one that answers finds the regions of what it missed before it answers.
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
        # Those that are away and had every change still do: none was acknowledged since.
        self._save_members(self._members | (self._saved or set()))

    def _save_members(self, members: Collection[int]) -> None:
        """Write down who has every acknowledged change."""
        if self._store is not None and members != self._saved:
            self._store.write(frozenset(members))
        self._saved = frozenset(members)

    def _drop_restarted(self) -> None:
        """Notice members that were started again since, and do not answer searches until they are let to."""
        with self._own_turn():
            found = self._call(sorted(self._members), "has_joined", timeout_s=POSITION_S)
            gone = {number for number, joined in found.items() if joined is not True}
            if gone:
                self._members -= gone
                self._recover()

    def _call(
        self, numbers: Sequence[int] | range, method: str, *arguments: Any, timeout_s: float = float("inf")
    ) -> dict[int, Any]:
        """Number -> what the replica returned or raised, within `timeout_s` and the time for a change."""
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
