"""A router's knowledge of the shards: which replicas to ask, and where pictures are.

The director's last view may be outdated, if the director is out of reach while replicas are not. Replicas then report
that pictures have moved to new shards. From then on the router counts these shards, too: as long as it knows no replica
of a new shard, that shard does not answer, and answers without its pictures count as partial.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Protocol, Self

from service.cluster.cluster_view import ClusterView
from service.cluster.placement import Placement
from service.cluster.routing.fan_out import FanOut, Replica


class ReachedReplica(Replica, Protocol):
    """A replica, and the state that a router requires of it."""

    def requiring(self, at_least: int, num_shards: int) -> Self:
        """The replica as one that must have the changes up to number `at_least`, and must not have released pictures to
        shards beyond the first `num_shards`."""


class KnownShards:
    """Combines the director's view with later reports of replicas. Thread-safe."""

    def __init__(self, deadline_s: float, reach: Callable[[int, int], ReachedReplica]) -> None:
        """`reach` returns a replica by its shard and number."""
        self.fan_out = FanOut([], deadline_s, heard=self.hear)
        self._reach = reach
        self._changing = threading.Lock()
        self._view = ClusterView([])
        self._placement = Placement(0)
        self._known: list[list[ReachedReplica]] = []
        self._written: dict[int, int] = {}
        self._reported = 0

    def placement(self) -> Placement:
        """The current placement of pictures."""
        return self._placement

    def take(self, view: ClusterView) -> None:
        """Take over a view from the director."""
        with self._changing:
            self._view = view
            for shard, state in enumerate(view.shards):  # a director that has just started may not know the last change
                self._written[shard] = max(state.sequence, self._written.get(shard, 0))
            self._arrange()

    def hear(self, num_shards: int) -> None:
        """Note a replica's report that pictures are placed among `num_shards` shards."""
        with self._changing:
            if num_shards > self._reported:
                self._reported = num_shards
                self._arrange()

    def written(self, shard: int, sequence: int) -> None:
        """Note a change made through this router, which its later searches must see."""
        with self._changing:
            self._written[shard] = max(sequence, self._written.get(shard, 0))
            self._arrange()

    def _arrange(self) -> None:
        """Update the replicas to ask: those with every change that this router knows of."""
        view, known = self._view, self._known
        num_shards = max(view.num_shards, self._reported)
        self._known = []
        for shard, state in enumerate(view.shards):
            at_least = self._written.get(shard, 0)
            before = {replica.name: replica for replica in (known[shard] if shard < len(known) else ())}
            members = [self._reach(shard, number) for number in sorted(state.members) or range(state.num_replicas)]
            self._known.append([before.get(member.name, member).requiring(at_least, num_shards) for member in members])
        unknown: list[Sequence[Replica]] = [[] for _ in range(view.num_shards, num_shards)]
        self.fan_out.replicas = [*self._known, *unknown]
        moving_from = view.moving_from if not unknown else view.num_shards
        self._placement = Placement(num_shards, moving_from)
