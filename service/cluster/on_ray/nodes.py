"""The nodes of a Ray cluster, and the start of replicas on them."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any

import ray
from ray.util import list_named_actors

from service.cluster.directing.plan import split_place
from service.cluster.on_ray.remote import GROUPS, NAMESPACE, RemoteReplica, ReplicaActor, is_replica_name, replica_name
from service.errors import UserError

LABEL = "regard-node"
"""A label that a node may be started with (`ray start --labels regard-node=a`), which identifies it over restarts."""
SHARE = 0.001  # of the resource that pins an actor to a node, of which each node has one


class RayNodes:
    """Chooses nodes, and pins replicas to them.

    Unpinned, Ray would restart a lost replica on a node without its directory. A pinned one waits for its own node,
    until it is repaired elsewhere.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """`settings` are those of the replicas."""
        self._settings = dict(settings)
        remote: Any = ray.remote  # its types lack concurrency groups
        self._replica_actor = remote(concurrency_groups=GROUPS)(ReplicaActor)

    def choose(self, shard: int, count: int) -> Sequence[str]:
        """Names of `count` different nodes for a shard's replicas, by rendezvous hashing, which spreads shards over the
        nodes. Nodes without CPUs (`ray start --num-cpus=0`) get no replicas. UserError where there are too few."""
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
        """Start a replica at a place (NODE, or NODE@2 where it was rebuilt twice), unless it runs. Returns a handle."""
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
        """End a replica permanently."""
        _kill(replica_name(shard, number))

    def stop_all(self) -> None:
        """End every replica permanently, including those of a shard that is being added."""
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
    """The name that a node keeps over restarts: its label, or else the resource named after its address."""
    label = node.get("Labels", {}).get(LABEL)
    return f"{LABEL}={label}" if label else f"node:{node['NodeManagerAddress']}"


def pinned(name: str) -> dict[str, Any]:
    """Options that pin an actor to a node."""
    if name.startswith(f"{LABEL}="):
        return {"label_selector": {LABEL: name.removeprefix(f"{LABEL}=")}}
    return {"resources": {name: SHARE}}
