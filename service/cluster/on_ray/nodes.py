"""The machines of a Ray cluster: which there are, and replicas started on them."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any

import ray
from ray.util import list_named_actors

from service.cluster.directing.director import split_place
from service.cluster.on_ray.remote import GROUPS, NAMESPACE, RemoteReplica, ReplicaActor, is_replica_name, replica_name
from service.errors import UserError

LABEL = "regard-node"
"""A label that a node may be started with (`ray start --labels regard-node=a`), by which it is known over restarts."""
SHARE = 0.001  # of a resource that every node has once


class RayNodes:
    """Chooses nodes, and pins replicas to them.

    Ray by itself would start a lost replica on any node, where its directory is not: a replica waits for its own node
    instead, until it is repaired elsewhere.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """`settings` of the replicas."""
        self._settings = dict(settings)
        remote: Any = ray.remote  # whose types do not know of groups
        self._replica_actor = remote(concurrency_groups=GROUPS)(ReplicaActor)

    def choose(self, shard: int, count: int) -> Sequence[str]:
        """Names of `count` different nodes for the replicas of a shard, by rendezvous hashing, so that no node has a
        replica of each. A node without CPUs (`ray start --num-cpus=0`) is none to work on. UserError where there are
        too few."""
        working = [node_name(node) for node in living_nodes() if node["Resources"].get("CPU", 0) > 0]
        if len(working) < count:
            raise UserError(
                f"{count} replicas need {count} nodes with CPUs, and {len(working)} are there: start more with `ray"
                " start`, or begin with fewer replicas (REGARD_REPLICAS)"
            )
        return sorted(working, key=lambda name: blake2b(f"{shard}:{name}".encode()).digest())[:count]

    def names(self) -> Sequence[str]:
        """The nodes that are up."""
        return sorted(map(node_name, living_nodes()))

    def start(self, shard: int, number: int, node: str) -> RemoteReplica:
        """Start a replica at a place (NODE, or NODE@2 for what was made anew twice), unless it runs, and reach it."""
        name, generation = split_place(node)
        self._replica_actor.options(
            name=replica_name(shard, number),
            namespace=NAMESPACE,
            lifetime="detached",
            get_if_exists=True,
            max_restarts=-1,
            max_task_retries=0,
            num_cpus=0,
            **pinned(name),
        ).remote(shard, number, self._settings, generation)
        return RemoteReplica(shard, number)

    def stop(self, shard: int, number: int) -> None:
        """End a replica for good."""
        _kill(replica_name(shard, number))

    def stop_all(self) -> None:
        """End every replica for good, those of a shard that is just being added too."""
        for actor in list_named_actors(all_namespaces=True):
            if actor["namespace"] == NAMESPACE and is_replica_name(actor["name"]):
                _kill(actor["name"])


def _kill(name: str) -> None:
    with suppress(ValueError):  # it never ran, or is gone
        ray.kill(ray.get_actor(name, NAMESPACE), no_restart=True)


def living_nodes() -> list[dict[str, Any]]:
    """The nodes that are up, as Ray describes them."""
    nodes: list[dict[str, Any]] = ray.nodes()
    return [node for node in nodes if node["Alive"]]


def node_name(node: Mapping[str, Any]) -> str:
    """The name that a node keeps over restarts: its label, or else the resource that its address is."""
    label = node.get("Labels", {}).get(LABEL)
    return f"{LABEL}={label}" if label else f"node:{node['NodeManagerAddress']}"


def pinned(name: str) -> dict[str, Any]:
    """Options of an actor that runs on that node alone."""
    if name.startswith(f"{LABEL}="):
        return {"label_selector": {LABEL: name.removeprefix(f"{LABEL}=")}}
    return {"resources": {name: SHARE}}
