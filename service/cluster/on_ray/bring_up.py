"""The start of a collection on a Ray cluster: director, replicas, and routers behind Ray Serve."""

import atexit
import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ray
from ray import serve

from service.api.app import create_app
from service.auth.exposure import is_any_address
from service.cluster.cluster_view import ClusterView
from service.cluster.directing.director import Director
from service.cluster.directing.plan import ClusterPlan
from service.cluster.messages import SHARD_RETRY_S
from service.cluster.on_ray.director import connect_to_ray, director_of
from service.cluster.on_ray.nodes import RayNodes, living_nodes, node_name, pinned
from service.cluster.on_ray.remote import (
    CHANGES,
    DIRECTOR,
    NAMESPACE,
    Outcome,
    RemoteReplica,
    answer_of,
    dumped_settings,
    value_of,
)
from service.cluster.operations import Operation
from service.cluster.routing.fan_out import READ_DEADLINE_S
from service.cluster.routing.known_shards import KnownShards
from service.cluster.routing.picture_homes import PictureHomes
from service.cluster.routing.router import ForwardToShards, KeyFileCopy, router_services
from service.cluster.routing.router_folder import RouterFolder
from service.cluster.shards.replica import Files
from service.errors import NotReady, Problem, UserError
from service.model_loading import LoadedModels
from service.settings import ClusterSettings, Settings

LOOK_S = 10.0
VIEW_S = 0.5  # between two views of the cluster
WRITE_S = 120.0
APP = "regard"
HOSTS = ("127.0.0.1", "localhost", "0.0.0.0")
LOOKS, OPERATORS = "looks", "operators"
# So that changes that wait for a hanging replica block neither routers' views nor an operator's repair.
DIRECTOR_GROUPS = {LOOKS: 8, OPERATORS: 4, CHANGES: 64}

log = logging.getLogger(__name__)


class DirectorActor:
    """The actor around a Director."""

    def __init__(self, settings: dict[str, Any], address: tuple[str, int]) -> None:
        """`settings` are those of the replicas; `address` is the host and port that the collection is served at."""
        self._settings, self._address = settings, address
        self._director = Director(Path(settings["data_dir"]), RayNodes(settings))

    @ray.method(concurrency_group=LOOKS)
    def settings(self) -> dict[str, Any]:
        """The settings that replicas run with."""
        return self._settings

    @ray.method(concurrency_group=LOOKS)
    def address(self) -> tuple[str, int]:
        """The host and port that the collection is served at."""
        return self._address

    @ray.method(concurrency_group=OPERATORS)
    def begin(self, num_shards: int, num_replicas: int, write_quorum: int) -> Outcome:
        """Plan and start a cluster, unless one is planned."""
        return outcome_of(self._director.begin, num_shards, num_replicas, write_quorum)

    @ray.method(concurrency_group=LOOKS)
    def plan(self) -> ClusterPlan | None:
        """The plan of the cluster."""
        return self._director.plan()

    @ray.method(concurrency_group=LOOKS)
    def view(self) -> ClusterView:
        """The view of the cluster that routers work with."""
        return self._director.view()

    @ray.method(concurrency_group=CHANGES)
    def write(
        self, shard: int, operation: Operation, files: "dict[str, ray.ObjectRef[bytes]]", num_shards: int
    ) -> Outcome:
        """Have a shard make a change; replicas fetch the bytes of its pictures from the router."""
        try:
            return Outcome(self._director.write(shard, operation, files, num_shards))  # type: ignore[arg-type]
        except (Problem, ValueError) as problem:
            return Outcome(problem=problem)

    @ray.method(concurrency_group=OPERATORS)
    def add_shard(self) -> Outcome:
        """Add a shard and begin to move its share of the pictures to it. Returns its number."""
        return outcome_of(self._director.add_shard)

    @ray.method(concurrency_group=OPERATORS)
    def repair(self, shard: int, number: int) -> Outcome:
        """Rebuild a replica."""
        return outcome_of(self._director.repair, shard, number)


def outcome_of(call: Callable[..., Any], *arguments: Any) -> Outcome:
    """The result of a call, or its UserError; other exceptions are raised."""
    try:
        return Outcome(call(*arguments))
    except UserError as mistake:
        return Outcome(problem=mistake)


class ClusterConnection:
    """A router's connection: its knowledge of the shards, refreshed by a thread, and access to the writers."""

    def __init__(self, deadline_s: float, keys: Callable[[bytes | None], None]) -> None:
        """`keys` is called with the content of the key file at each refresh."""
        self._director = ray.get_actor(DIRECTOR, NAMESPACE)
        self._keys = keys
        self.shards = KnownShards(deadline_s, RemoteReplica)
        self._stop = threading.Event()
        self.look()
        threading.Thread(target=self._run, name="cluster", daemon=True).start()

    def write(self, shard: int, operation: Operation, files: Files | None = None) -> Any:
        """The result of a change. Raises NotReady where it is not acknowledged."""
        references = {image_id: ray.put(content) for image_id, content in (files or {}).items()}
        try:
            num_shards = self.shards.placement().num_shards
            call: Any = self._director.write.remote(shard, operation, references, num_shards)
            outcome: Any = ray.get(call, timeout=WRITE_S)
        except Exception as fault:
            log.warning("a change was not acknowledged: %s", fault)
            raise NotReady("The change was not acknowledged; send it again.", retry_after=SHARD_RETRY_S) from fault
        if outcome.problem is not None:
            raise outcome.problem
        sequence, value = outcome.value
        self.shards.written(shard, sequence)
        return value

    def look(self) -> None:
        """Refresh the view of the cluster."""
        view: ClusterView = answer_of(self._director.view.remote(), LOOK_S)
        self._keys(view.keys)
        self.shards.take(view)

    def close(self) -> None:
        """End the thread."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(VIEW_S):
            try:
                self.look()
            except Exception as fault:  # the director restarts; the last view stays valid
                log.warning("the director does not answer: %s", fault)


def router_app(settings: dict[str, Any], cluster: ClusterSettings) -> Callable[..., Any]:
    """The application of a router, built in its own process."""
    router_folder = RouterFolder(Path(settings["data_dir"]))
    atexit.register(router_folder.close)
    folder = router_folder.path
    # Nothing is cached, since each replica has versions of its own, which cannot name an answer of several.
    local = Settings(**{**settings, "data_dir": folder, "views": [], "cache_entries": 0})
    keys = KeyFileCopy(folder / "keys.json")
    connection = ClusterConnection(cluster.search_deadline_s, keys.update)
    loaded = LoadedModels.from_settings(local, stored=False)
    fan_out, placement = connection.shards.fan_out, connection.shards.placement
    services = router_services(local, loaded, fan_out, connection, placement, cluster.search_round_trips)
    services.keys.doubted_by(keys.doubt)
    patience_s = READ_DEADLINE_S + local.decode_timeout_s
    homes = PictureHomes(fan_out, placement)
    return create_app(services, lambda app: ForwardToShards(app, homes, fan_out, patience_s))


def bring_up(settings: Settings, cluster: ClusterSettings) -> ClusterPlan:
    """Start everything that does not run. Returns the plan. UserError without Ray, with too few nodes, or if it runs
    with other settings."""
    check_host(settings.host)
    connect_to_ray(cluster)
    plain = {**dumped_settings(settings), "data_dir": str(settings.data_dir.resolve())}
    address = settings.host, settings.port
    check_running(plain, address)
    # Before replicas load all processors, since Serve gives up on a proxy that starts too slowly.
    serve.start(http_options={"host": settings.host, "port": settings.port}, proxy_location="HeadOnly")
    remote: Any = ray.remote  # its types lack concurrency groups
    director = (
        remote(concurrency_groups=DIRECTOR_GROUPS)(DirectorActor)
        .options(
            name=DIRECTOR,
            namespace=NAMESPACE,
            lifetime="detached",
            get_if_exists=True,
            max_restarts=-1,
            num_cpus=0,
            **pinned(node_name(own_node())),
        )
        .remote(plain, address)
    )
    begun = director.begin.remote(cluster.shards, cluster.replicas, cluster.write_quorum)
    plan: ClusterPlan = value_of(answer_of(begun))
    serve_routers(settings, cluster, plain)
    return plan


def check_running(plain: Mapping[str, Any], address: tuple[str, int]) -> None:
    """UserError where another collection runs, or this one with other settings or at another address."""
    try:
        director = ray.get_actor(DIRECTOR, NAMESPACE)
    except ValueError:
        return
    running: dict[str, Any] = answer_of(director.settings.remote())
    if (folder := running.get("data_dir")) != plain.get("data_dir"):
        raise UserError(
            f"another collection runs on this Ray, that of {folder}, perhaps a demo: wait for its end, or name another"
            " Ray with --ray-address; `regard cluster down` would end that collection"
        )
    (host, port), (wanted_host, wanted_port) = answer_of(director.address.remote()), address
    if (host, port) != address:
        raise UserError(
            f"the collection is served at http://{host}:{port}: `regard cluster down` first, to serve it at"
            f" http://{wanted_host}:{wanted_port}"
        )
    if others := sorted(name for name in running.keys() | plain.keys() if running.get(name) != plain.get(name)):
        values = ", ".join(f"{name} = {running.get(name)}" for name in others)
        raise UserError(f"the collection runs with {values}: `regard cluster down` first, to change that")


def serve_routers(settings: Settings, cluster: ClusterSettings, plain: dict[str, Any]) -> None:
    """Run routers behind Ray Serve, as many as the load needs."""
    node = own_node()
    # Requests arrive at this node's address, whichever node answers them, so all routers must allow it as a host.
    address = node["NodeManagerAddress"]
    own_host = address if ":" in address else f"{address}:{settings.port}"
    web = {**plain, "host": settings.host, "port": settings.port, "insecure": settings.insecure}
    web["allowed_hosts"] = [*settings.allowed_hosts, own_host]

    # Each router listens on its own node; where only loopback is served, routers must run on this node.
    place = {} if is_any_address(settings.host) else pinned(node_name(node))

    def build() -> Callable[..., Any]:
        return router_app(web, cluster)

    class Router:
        """A router's process, in which Serve calls the application that `build` makes."""

    scaling = {"min_replicas": 1, "max_replicas": cluster.routers, "target_ongoing_requests": 8}
    deployment = serve.deployment(
        name="Router",
        autoscaling_config=scaling,
        max_ongoing_requests=100,
        ray_actor_options={"num_cpus": 0, **place},
        health_check_period_s=5,
    )
    serve.run(deployment(serve.ingress(build)(Router)).bind(), name=APP, route_prefix="/")


def check_host(host: str) -> None:
    """UserError for a host that routers cannot use: HAProxy calls those on its node at 127.0.0.1."""
    if host not in HOSTS:
        raise UserError(
            f"a cluster listens on {HOSTS[0]}, for this machine alone, or on {HOSTS[-1]}, for all, and not on {host}:"
            " say one of these with --host or REGARD_HOST"
        )


def own_node() -> Mapping[str, Any]:
    """The node that this process runs on, as Ray describes it."""
    node_id = ray.get_runtime_context().get_node_id()
    return next(node for node in living_nodes() if node["NodeID"] == node_id)


def take_down(cluster: ClusterSettings) -> None:
    """End routers, replicas and director; stored data stays. UserError where nothing runs."""
    director = director_of(cluster)
    serve.shutdown()
    ray.kill(director, no_restart=True)  # first, or it would restart replicas
    RayNodes({}).stop_all()
