"""The view of a cluster that the director hands to its routers."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class ShardView:
    """A shard: the replicas that have every change, by number, of how many, and the number of the last change."""

    members: frozenset[int]
    num_replicas: int
    sequence: int


@dataclass(frozen=True)
class ClusterView:
    """The shards, and the API keys' file, None where there is none.

    While pictures move to a shard that was added, `moving_from` is the number of shards that they were placed among.
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
