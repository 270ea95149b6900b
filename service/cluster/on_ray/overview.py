"""The state of a cluster for its operator."""

from collections.abc import Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any, Protocol

from service.cluster.cluster_view import ClusterView
from service.cluster.directing.plan import ClusterPlan
from service.cluster.shards.node import ReplicaStatus

STATUS_S = 10.0
GB = 1e9


@dataclass(frozen=True)
class ReplicaRow:
    """A line of the table; None where the replica does not say."""

    shard: int
    replica: int
    node: str
    state: str
    change: int | None
    ready: int | None
    queued: int | None
    failed: int | None
    free_gb: float | None


@dataclass(frozen=True)
class ClusterOverview:
    """All replicas, whether a shard is being added, and how many pictures cannot be moved to it."""

    replicas: Sequence[ReplicaRow]
    is_growing: bool
    num_shards: int
    """Number of the shards that pictures are placed among."""
    stuck: int = 0


class RunningCluster(Protocol):
    """A collection that runs, as an operator reaches it."""

    def plan(self) -> ClusterPlan | None:
        """Where replicas are; None before there are any."""

    def view(self) -> ClusterView:
        """How the shards are."""

    def status(self, shard: int, number: int) -> "Future[Any]":
        """Begin to ask a replica for its ReplicaStatus; it fails with anything where the replica does not answer."""

    def add_shard(self) -> int:
        """Add a shard; its number. UserError while pictures still move to the last one."""

    def repair(self, shard: int, number: int) -> str:
        """Make a replica anew; the node that it is on. UserError where there is no such replica, or no node for it."""


def cluster_overview(cluster: RunningCluster) -> ClusterOverview:
    """The state of every replica."""
    plan, view = cluster.plan(), cluster.view()
    numbers = [
        (shard, number, node)
        for shard, nodes in enumerate(plan.shards if plan else ())
        for number, node in enumerate(nodes)
    ]
    asked = [cluster.status(shard, number) for shard, number, _ in numbers]
    wait(asked, STATUS_S)
    rows = []
    for (shard, number, node), answer in zip(numbers, asked, strict=True):
        try:
            status = answer.result(0)
        except Exception:  # whatever it is, the replica does not answer, which the table says
            status = None
        is_member = shard < view.num_shards and number in view.shards[shard].members  # its writer may yet be started
        rows.append(replica_row(shard, number, node, status, is_member))
    is_growing = view.adding is not None or view.moving_from is not None
    return ClusterOverview(rows, is_growing, view.num_shards, view.stuck)


def replica_row(shard: int, number: int, node: str, status: ReplicaStatus | None, is_member: bool) -> ReplicaRow:
    """The line of a replica."""
    if status is None:
        return ReplicaRow(shard, number, node, "away", None, None, None, None, None)
    state = "catching up" if not is_member else "answers" if status.settled else "finding regions"
    ready, queued, failed = (status.counts[name] for name in ("ready", "queued", "failed"))
    free = round(status.free_bytes / GB, 1)
    return ReplicaRow(shard, number, node, state, status.position.sequence, ready, queued, failed, free)
