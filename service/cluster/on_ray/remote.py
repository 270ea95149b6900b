"""Replicas as Ray actors, and access to them from other processes."""

import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any

import ray
from ray.actor import ActorHandle
from ray.exceptions import ActorDiedError

from service.cluster.shards.journal import JournalEntry, Position
from service.cluster.shards.node import ReplicaStatus, ShardNode, replica_folder
from service.cluster.shards.replica import Files
from service.cluster.shards.replica_copy import CopyListing, CopyPart, PartContent
from service.cluster.shards.replica_host import BEING_MADE, ReplicaHost
from service.errors import Problem
from service.settings import Settings

NAMESPACE = "regard"
DIRECTOR, REPLICA = "director", "replica-"
CALL_S = 300.0
COPY_S = 6 * 3600.0
SEARCHES, CHANGES, CATCHING_UP, SIBLINGS, HEALTH = "searches", "changes", "catching_up", "siblings", "health"
GROUPS = {SEARCHES: 32, CHANGES: 2, CATCHING_UP: 2, SIBLINGS: 4, HEALTH: 4}
"""Threads of a replica by purpose, so that searches never wait for changes, nor status calls for either. Scoring takes
turns behind the search threads, and changes are made one by one."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """The result of a call, or the Problem that it raised, which Ray would wrap."""

    value: Any = None
    problem: Exception | None = None
    seconds: float = 0.0
    """The time that the replica took."""


def replica_name(shard: int, number: int) -> str:
    """The name of a replica's actor."""
    return f"{REPLICA}{shard}-{number}"


def is_replica_name(name: str) -> bool:
    """Whether an actor of this name is a replica."""
    return name.startswith(REPLICA)


class ReplicaActor:
    """The actor around a ShardNode."""

    def __init__(self, shard: int, number: int, settings: Mapping[str, Any], generation: int = 0) -> None:
        """`settings` come from `dumped_settings`, with the data directory of this node; `generation` counts how often
        the replica was rebuilt."""
        replica_settings = Settings(**settings)
        self._shard = shard
        folder = replica_folder(replica_settings.data_dir, shard, number, generation)
        replica_settings = replica_settings.model_copy(update={"data_dir": folder})
        self._host = ReplicaHost(folder, lambda: ShardNode(replica_settings), is_anew=generation > 0)

    @property
    def _node(self) -> ShardNode:
        return self._host.node

    @ray.method(concurrency_group=SEARCHES)
    def ask(self, at_least: int, method: str, arguments: Sequence[Any], num_shards: int | None = None) -> Outcome:
        """Call a method of ShardSearch, ShardLists, or the web side."""
        started = time.perf_counter()
        try:
            answer = self._node.ask(at_least, method, arguments, num_shards)
        except Problem as problem:
            return Outcome(problem=problem)
        return Outcome(answer, seconds=time.perf_counter() - started)

    @ray.method(concurrency_group=CHANGES)
    def apply(self, entry: JournalEntry, files: "Mapping[str, bytes | ray.ObjectRef[bytes]]") -> Outcome:
        """Make a change; bytes sent as references are fetched from their owner."""
        try:
            return Outcome(self._node.apply(entry, fetched(files)))
        except (Problem, ValueError) as problem:
            return Outcome(problem=problem)

    @ray.method(concurrency_group=CATCHING_UP)
    def follow(self, number: int) -> Position:
        """Catch up from the sibling of that number; a rebuilt replica copies it first."""
        return self._host.follow(RemoteSibling(ray.get_actor(replica_name(self._shard, number), NAMESPACE)))

    @ray.method(concurrency_group=HEALTH)
    def join(self, sequence: int, settles: bool) -> None:
        """Answer searches from now on or, if it `settles`, once its pictures can be found."""
        self._node.join(sequence, settles)

    @ray.method(concurrency_group=HEALTH)
    def has_joined(self) -> bool:
        """Whether the writer of its shard has readmitted it since it started."""
        return self._host.is_open and self._node.has_joined()

    @ray.method(concurrency_group=HEALTH)
    def position(self) -> Position:
        """The replica's place in the journal."""
        return self._node.replica.position()

    @ray.method(concurrency_group=SIBLINGS)
    def position_at(self, sequence: int) -> Position:
        """The position after an entry."""
        return self._node.replica.position_at(sequence)

    @ray.method(concurrency_group=SIBLINGS)
    def entries_after(self, sequence: int, limit: int) -> Sequence[JournalEntry]:
        """The journal's entries after a number."""
        return self._node.replica.entries_after(sequence, limit)

    @ray.method(concurrency_group=SIBLINGS)
    def originals_of(self, entry: JournalEntry) -> Files:
        """The bytes of the pictures that an entry takes in."""
        return self._node.replica.originals_of(entry)

    @ray.method(concurrency_group=SIBLINGS)
    def begin_copy(self) -> CopyListing:
        """Begin a copy of the directory for a sibling to read."""
        return self._node.copies.begin_copy()

    @ray.method(concurrency_group=SIBLINGS)
    def read_copy(self, name: str, parts: Sequence[CopyPart]) -> Sequence[PartContent]:
        """The contents of parts of a copy."""
        return self._node.copies.read_copy(name, parts)

    @ray.method(concurrency_group=SIBLINGS)
    def end_copy(self, name: str) -> None:
        """Remove a copy."""
        self._node.copies.end_copy(name)

    @ray.method(concurrency_group=HEALTH)
    def status(self) -> ReplicaStatus:
        """The state of the replica for operators; one that is being rebuilt has nothing yet."""
        return self._node.status() if self._host.is_open else BEING_MADE


def fetched(files: "Mapping[str, bytes | ray.ObjectRef[bytes]]") -> Files:
    """The bytes of files, of which some may be references."""
    return {name: file if isinstance(file, bytes) else answer_of(file) for name, file in files.items()}


def answer_of(reference: Any, timeout_s: float = CALL_S) -> Any:
    """The result of a call; blocks. GetTimeoutError where none comes in time."""
    return ray.get(reference, timeout=timeout_s)


def value_of(outcome: Outcome) -> Any:
    """The value of an outcome; raises its problem, if any."""
    if outcome.problem is not None:
        raise outcome.problem
    return outcome.value


class RemoteSibling:
    """A sibling to catch up from."""

    def __init__(self, handle: "ActorHandle[Any]") -> None:
        self._handle = handle

    def entries_after(self, sequence: int, limit: int) -> Sequence[JournalEntry]:
        """The journal's entries after a number."""
        entries: Sequence[JournalEntry] = answer_of(self._handle.entries_after.remote(sequence, limit))
        return entries

    def originals_of(self, entry: JournalEntry) -> Files:
        """The bytes of the pictures that an entry takes in."""
        files: Files = answer_of(self._handle.originals_of.remote(entry))
        return files

    def position_at(self, sequence: int) -> Position:
        """The position after an entry."""
        position: Position = answer_of(self._handle.position_at.remote(sequence))
        return position

    def begin_copy(self) -> CopyListing:
        """Have the sibling copy its directory, which takes a while for millions of pictures."""
        listing: CopyListing = answer_of(self._handle.begin_copy.remote(), COPY_S)
        return listing

    def read_copy(self, name: str, parts: Sequence[CopyPart]) -> Sequence[PartContent]:
        """The contents of parts of the copy."""
        contents: Sequence[PartContent] = answer_of(self._handle.read_copy.remote(name, parts))
        return contents

    def end_copy(self, name: str) -> None:
        """Have the sibling remove the copy."""
        answer_of(self._handle.end_copy.remote(name))


class RemoteReplica:
    """A replica as routers and its shard's writer reach it; its actor is looked up at the first call."""

    def __init__(self, shard: int, number: int, at_least: int = 0, num_shards: int | None = None) -> None:
        """A replica refuses searches if it lacks changes up to `at_least`, or if it released pictures to shards beyond
        `num_shards`, where that is given."""
        self.name = replica_name(shard, number)
        self._shard, self._number, self._at_least, self._num_shards = shard, number, at_least, num_shards
        self._handle: ActorHandle[Any] | None = None

    def requiring(self, at_least: int, num_shards: int) -> "RemoteReplica":
        """This replica for calls that need the changes up to number `at_least`, by a router that knows `num_shards`
        shards."""
        if (at_least, num_shards) == (self._at_least, self._num_shards):
            return self
        other = RemoteReplica(self._shard, self._number, at_least, num_shards)
        other._handle = self._handle
        return other

    def call(self, method: str, *arguments: Any) -> "Future[Any]":
        """Begin a call for a router."""
        return self.begin("ask", self._at_least, method, arguments, self._num_shards)

    def begin(self, method: str, *arguments: Any) -> "Future[Any]":
        """Begin a call of the actor."""
        answer: Future[Any] = Future()
        self.begin_outcome(method, *arguments).add_done_callback(partial(settle_outcome, answer))
        return answer

    def begin_outcome(self, method: str, *arguments: Any) -> "Future[Any]":
        """Begin a call of the actor, whose Outcome is passed on unchanged."""
        try:
            if self._handle is None:
                self._handle = ray.get_actor(self.name, NAMESPACE)
            call: Future[Any] = getattr(self._handle, method).remote(*arguments).future()
        except Exception as fault:  # not started yet, or ended permanently
            self._handle = None
            failed: Future[Any] = Future()
            failed.set_exception(fault)
            return failed
        call.add_done_callback(self._notice_end)
        return call

    def _notice_end(self, done: "Future[Any]") -> None:
        if isinstance(done.exception(), ActorDiedError):  # permanently; it may have been replaced
            self._handle = None


def settle_outcome(answer: "Future[Any]", done: "Future[Any]") -> None:
    """Settle a future with a call's result, its exception, or the problem in its outcome."""
    fault = done.exception()
    if fault is not None:
        answer.set_exception(fault)
        return
    value = done.result()
    if not isinstance(value, Outcome):
        answer.set_result(value)
    elif value.problem is not None:
        answer.set_exception(value.problem)
    else:
        answer.set_result(value.value)


def dumped_settings(settings: Settings) -> dict[str, Any]:
    """The settings as plain values, for another process."""
    left_out = {"role", "redis_url", "host", "port", "insecure"}
    return settings.model_dump(mode="json", exclude_none=True, exclude=left_out)
