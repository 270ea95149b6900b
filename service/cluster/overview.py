"""The state of a cluster for its operator, and the changes that operators make."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ray

from service.cluster.bring_up import connect_to_ray
from service.cluster.cluster_view import ClusterView
from service.cluster.director import ClusterPlan
from service.cluster.remote import DIRECTOR, NAMESPACE, RemoteReplica, answer_of
from service.cluster.shard_node import ReplicaStatus
from service.errors import UserError
from service.settings import ClusterSettings

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
    """All replicas, and whether a shard is being added."""

    replicas: Sequence[ReplicaRow]
    is_growing: bool


def director_of(cluster: ClusterSettings) -> Any:
    """The director. UserError where there is no Ray, or no collection on it."""
    connect_to_ray(cluster)
    try:
        return ray.get_actor(DIRECTOR, NAMESPACE)
    except ValueError as fault:
        raise UserError("no collection runs on this Ray cluster: `regard cluster up` starts one") from fault


def cluster_overview(cluster: ClusterSettings) -> ClusterOverview:
    """The state of every replica. UserError where there is no cluster."""
    director = director_of(cluster)
    plan: ClusterPlan | None = answer_of(director.plan.remote())
    view: ClusterView = answer_of(director.view.remote())
    numbers = [
        (shard, number, node)
        for shard, nodes in enumerate(plan.shards if plan else ())
        for number, node in enumerate(nodes)
    ]
    asked = [RemoteReplica(shard, number).begin("status") for shard, number, _ in numbers]
    rows = []
    for (shard, number, node), answer in zip(numbers, asked, strict=True):
        try:
            status = answer.result(STATUS_S)
        except Exception:  # whatever it is, the replica does not answer, which the table says
            status = None
        is_member = number in view.shards[shard].members
        rows.append(replica_row(shard, number, node, status, is_member))
    return ClusterOverview(rows, view.adding is not None or view.moving_from is not None)


def replica_row(shard: int, number: int, node: str, status: ReplicaStatus | None, is_member: bool) -> ReplicaRow:
    """The line of a replica."""
    if status is None:
        return ReplicaRow(shard, number, node, "away", None, None, None, None, None)
    state = "catching up" if not is_member else "answers" if status.settled else "finding regions"
    ready, queued, failed = (status.counts[name] for name in ("ready", "queued", "failed"))
    free = round(status.free_bytes / GB, 1)
    return ReplicaRow(shard, number, node, state, status.position.sequence, ready, queued, failed, free)


def add_one_shard(cluster: ClusterSettings) -> int:
    """Add a shard; its number. UserError while pictures still move to the last one."""
    try:
        number: int = answer_of(director_of(cluster).add_shard.remote())
    except ValueError as fault:
        raise UserError(f"{fault}".splitlines()[-1]) from fault
    return number


def repair_replica(cluster: ClusterSettings, shard: int, number: int) -> str:
    """Make a replica anew; the node that it is on."""
    node: str = answer_of(director_of(cluster).repair.remote(shard, number))
    return node
