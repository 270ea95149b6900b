"""The director of a collection on Ray, as commands reach it."""

import logging
from concurrent.futures import Future
from typing import Any

import ray

from service.cluster.cluster_view import ClusterView
from service.cluster.directing.director import NOTHING_PLANNED
from service.cluster.directing.plan import ClusterPlan
from service.cluster.on_ray.overview import RunningCluster
from service.cluster.on_ray.remote import DIRECTOR, NAMESPACE, RemoteReplica, answer_of, value_of
from service.errors import UserError
from service.settings import ClusterSettings


def connect_to_ray(cluster: ClusterSettings) -> None:
    """Connect to Ray. UserError where there is none."""
    if ray.is_initialized():
        return
    try:
        ray.init(
            address=cluster.ray_address,
            namespace=NAMESPACE,
            log_to_driver=False,
            logging_level=logging.ERROR,
            configure_logging=False,
        )
    except ConnectionError as fault:
        raise UserError(
            f"no Ray cluster at {cluster.ray_address} that lets this process in: start one with `ray start --head`, and"
            " `ray start --address=HEAD:6379` on the other machines; where it asks for a token, set RAY_AUTH_MODE=token"
        ) from fault


def director_of(cluster: ClusterSettings) -> Any:
    """The director's actor. UserError where there is no Ray, or no collection on it."""
    connect_to_ray(cluster)
    try:
        return ray.get_actor(DIRECTOR, NAMESPACE)
    except ValueError as fault:
        raise UserError(NOTHING_PLANNED) from fault


class RayDirector:
    """Calls the director's actor and the replicas."""

    def __init__(self, director: Any) -> None:
        self._director = director

    def plan(self) -> ClusterPlan | None:
        """The planned placement."""
        plan: ClusterPlan | None = answer_of(self._director.plan.remote())
        return plan

    def view(self) -> ClusterView:
        """How the shards are."""
        view: ClusterView = answer_of(self._director.view.remote())
        return view

    def status(self, shard: int, number: int) -> "Future[Any]":
        """Begin to read the status of a replica."""
        return RemoteReplica(shard, number).begin("status")

    def add_shard(self) -> int:
        """Add a shard. Returns its number. UserError while pictures still move to the last one."""
        return int(value_of(answer_of(self._director.add_shard.remote())))

    def repair(self, shard: int, number: int) -> str:
        """Rebuild a replica. Returns its node. UserError where there is no such replica, or no node for it."""
        return str(value_of(answer_of(self._director.repair.remote(shard, number))))


def running_cluster(cluster: ClusterSettings) -> RunningCluster:
    """The collection on a Ray cluster. UserError where there is no Ray, or no collection on it."""
    return RayDirector(director_of(cluster))
