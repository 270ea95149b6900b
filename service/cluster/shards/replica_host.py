"""The host of a replica, whose directory exists or is first copied from a sibling."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from service.cluster.messages import Behind
from service.cluster.shards.journal import ORIGIN, Position
from service.cluster.shards.node import ReplicaStatus, ShardNode
from service.cluster.shards.replica import Sibling
from service.cluster.shards.replica_copy import CopySource, copy_replica

BEING_MADE = ReplicaStatus(
    position=ORIGIN, counts=dict.fromkeys(("ready", "queued", "failed", "deleted"), 0), settled=False, free_bytes=0
)


class CopiedSibling(Sibling, CopySource, Protocol):
    """A sibling to copy, or to catch up from."""


class ReplicaHost:
    """A replica, as soon as its directory is complete. Thread-safe."""

    def __init__(self, folder: Path, opened: Callable[[], ShardNode], is_anew: bool) -> None:
        """`opened` starts the replica in `folder`; one that `is_anew` starts once that is copied."""
        self._folder, self._opened = folder, opened
        self._making = threading.Lock()
        self._node = None if is_anew and not folder.exists() else opened()

    @property
    def is_open(self) -> bool:
        """Whether the replica has started."""
        return self._node is not None

    @property
    def node(self) -> ShardNode:
        """The replica. Behind while it is being copied: it then has no position, and never leads its shard."""
        if self._node is None:
            raise Behind("this replica is being made of its sibling")
        return self._node

    def follow(self, sibling: CopiedSibling) -> Position:
        """Catch up from a sibling, which is first copied if there is no directory."""
        with self._making:
            if self._node is None:
                if not self._folder.exists():  # an existing one is complete, even if it could not be started
                    copy_replica(sibling, self._folder)
                self._node = self._opened()
        return self.node.follow(sibling)
