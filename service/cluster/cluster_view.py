"""The view of a cluster that the director hands to its routers."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class ShardView:
    """A shard: the replicas that have every change, the number of all replicas, and that of the last change."""

    members: frozenset[int]
    num_replicas: int
    sequence: int


@dataclass(frozen=True)
class ClusterView:
    """The shards, and the content of the key file, None without one.

    While pictures move to an added shard, `moving_from` is the number of shards before.
    """

    shards: Sequence[ShardView]
    moving_from: int | None = None
    adding: int | None = None
    """The number of a shard whose replicas are still starting."""
    stuck: int = 0
    """The number of pictures that cannot be moved, since their originals are missing."""
    keys: bytes | None = None

    @property
    def num_shards(self) -> int:
        """The number of shards that pictures are placed among."""
        return len(self.shards)
