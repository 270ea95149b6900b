"""The shards as a router knows them: who is asked, and where pictures are.

What the director told last may be old: it may be out of reach while replicas are not. Replicas then say that pictures
have moved on. The router from there on asks as many shards as they name; for one that it knows no replica of nobody
answers, and so no answer that lacks its pictures counts as whole.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Protocol, Self

from service.cluster.cluster_view import ClusterView
from service.cluster.placement import Placement
from service.cluster.routing.fan_out import FanOut, Replica


class ReachedReplica(Replica, Protocol):
    """A replica, with what a router requires of it."""

    def requiring(self, at_least: int, num_shards: int) -> Self:
        """This replica, which is to have the changes up to number `at_least`, and to have let no picture go to a shard
        beyond the first `num_shards`."""


class KnownShards:
    """News of the director, and of replicas since. Safe from many threads."""

    def __init__(self, deadline_s: float, reach: Callable[[int, int], ReachedReplica]) -> None:
        """`reach` gives a replica by its shard and number."""
        self.fan_out = FanOut([], deadline_s, heard=self.hear)
        self._reach = reach
        self._changing = threading.Lock()
        self._view = ClusterView([])
        self._placement = Placement(0)
        self._known: list[list[ReachedReplica]] = []
        self._written: dict[int, int] = {}
        self._heard = 0

    def placement(self) -> Placement:
        """The places of pictures at present."""
        return self._placement

    def take(self, view: ClusterView) -> None:
        """Take up what the director tells."""
        with self._changing:
            self._view = view
            for shard, state in enumerate(view.shards):  # a director that has just started knows of no change
                self._written[shard] = max(state.sequence, self._written.get(shard, 0))
            self._arrange()

    def hear(self, num_shards: int) -> None:
        """A replica says that pictures have moved to `num_shards` shards."""
        with self._changing:
            if num_shards > self._heard:
                self._heard = num_shards
                self._arrange()

    def written(self, shard: int, sequence: int) -> None:
        """This router heard of a change; from now on it is found here."""
        with self._changing:
            self._written[shard] = max(sequence, self._written.get(shard, 0))
            self._arrange()

    def _arrange(self) -> None:
        """Ask the replicas that have every change, as far as this router knows of changes and of shards."""
        view, known = self._view, self._known
        num_shards = max(view.num_shards, self._heard)
        self._known = []
        for shard, state in enumerate(view.shards):
            at_least = self._written.get(shard, 0)
            own = {one.name: one for one in (known[shard] if shard < len(known) else ())}
            made = [self._reach(shard, number) for number in sorted(state.members) or range(state.num_replicas)]
            self._known.append([own.get(one.name, one).requiring(at_least, num_shards) for one in made])
        unknown: list[Sequence[Replica]] = [[] for _ in range(view.num_shards, num_shards)]
        self.fan_out.replicas = [*self._known, *unknown]
        moving_from = view.moving_from if not unknown else view.num_shards
        self._placement = Placement(num_shards, moving_from)
