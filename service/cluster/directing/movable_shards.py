"""The shards of a cluster as its director and rebalancing see them: read from replicas that have every change, and
changed by their writers."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar, TypeVarTuple

from service.cluster.directing.move_gate import MoveGate
from service.cluster.directing.shard_writer import ShardWriter, WritableReplica
from service.cluster.operations import Operation
from service.cluster.placement import Placement
from service.cluster.routing.fan_out import FanOut, all_answers
from service.cluster.shards.lists import ShardLists
from service.cluster.shards.replica import Files

HELD_LOOK_S = 5.0  # for a read that a change waits for
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class StartedReplica(WritableReplica, Protocol):
    """A replica that can be written to and asked."""

    def call(self, method: str, *arguments: Any) -> "Future[Any]":
        """Begin a call, see fan_out.Replica."""


class MovableShards:
    """Reads and changes shards, see rebalancing.Shards. Thread-safe."""

    def __init__(self, placement: Placement, timeout_s: float, end_move: Callable[[], bool]) -> None:
        """There are no shards yet. `end_move` finishes the gate, and plans the end of the move."""
        self.writers: list[ShardWriter] = []
        self.gate = MoveGate(self._held, placement)
        self._replicas: list[Sequence[StartedReplica]] = []
        self._timeout_s, self._end_move = timeout_s, end_move
        self._threads = ThreadPoolExecutor(4, "director")

    def add(self, replicas: Sequence[StartedReplica], writer: ShardWriter) -> None:
        """Add the next shard."""
        self._replicas.append(replicas)
        self.writers.append(writer)

    def write(self, shard: int, operation: Operation, files: Files | None = None) -> tuple[int, Any]:
        """The number and the result of a change. Raises NotReady, and what the change raises."""
        return self.writers[shard].write(operation, files)

    def close(self) -> None:
        """End the threads, and cancel waiting calls."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def sequence(self, shard: int) -> int:
        """The number of a shard's last change."""
        return self.writers[shard].membership().position.sequence

    def job_is_done(self, shard: int, job_id: str) -> bool:
        """Whether every member of a shard finds the pictures of a job.

        A member that does not answer might soon, without finding them, so it is waited for until it is dropped.
        """
        fan_out = self._members_of(shard)
        answers = fan_out.ask_every(ShardLists.job_is_found, {shard: (job_id,)})[shard]
        return 0 < len(answers) == len(fan_out.replicas[shard]) and all(answers)

    def step(self, image_id: str) -> AbstractContextManager[None]:
        """A block in which only the move changes the picture. Raises NotReady where another change takes too long."""
        return self.gate.step(image_id)

    def begin_pass(self) -> None:
        """Start to note whether a picture comes back to its old shard."""
        self.gate.begin_pass()

    def finish(self) -> bool:
        """End the move; False where a picture may have come back since the pass began."""
        return self._end_move()

    def ask(self, shard: int, method: Callable[[ShardLists, *Ts], T], *arguments: *Ts) -> T:
        """The answer of one of the shard's replicas. Raises ShardLost where none answers."""
        return all_answers(self._members_of(shard), method, {shard: arguments})[shard]

    def _held(self, shard: int, image_ids: Sequence[str]) -> list[str]:
        """The ids among these whose pictures a shard has. Raises ShardLost soon, since a change waits for it."""
        return all_answers(self._members_of(shard, HELD_LOOK_S), ShardLists.held, {shard: (image_ids,)})[shard]

    def _members_of(self, shard: int, deadline_s: float | None = None) -> FanOut:
        """The replicas of a shard that have every change."""
        members = self.writers[shard].membership().members
        replicas: list[Sequence[StartedReplica]] = [[] for _ in self._replicas]
        replicas[shard] = [replica for number, replica in enumerate(self._replicas[shard]) if number in members]
        return FanOut(replicas, deadline_s or self._timeout_s, threads=self._threads)
