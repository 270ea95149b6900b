"""Where a replica runs: on a directory that is there, or on one that is made of a sibling first."""

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
    """A sibling that is copied, or caught up from."""


class ReplicaHost:
    """A replica, from the moment that its directory is whole. Safe from many threads."""

    def __init__(self, folder: Path, opened: Callable[[], ShardNode], is_anew: bool) -> None:
        """`opened` starts the replica in `folder`; one that `is_anew` is not started before that was made."""
        self._folder, self._opened = folder, opened
        self._making = threading.Lock()
        self._node = None if is_anew and not folder.exists() else opened()

    @property
    def is_open(self) -> bool:
        """Whether there is a replica yet."""
        return self._node is not None

    @property
    def node(self) -> ShardNode:
        """The replica. Behind while it is being made: then it has no position, and never leads its shard."""
        if self._node is None:
            raise Behind("this replica is being made of its sibling")
        return self._node

    def follow(self, sibling: CopiedSibling) -> Position:
        """Catch up from a sibling, once the directory is there."""
        with self._making:
            if self._node is None:
                if not self._folder.exists():  # one that was copied, and could not be started, is whole
                    copy_replica(sibling, self._folder)
                self._node = self._opened()
        return self.node.follow(sibling)
