"""`regard cluster`: one collection on several machines of a Ray cluster."""

import os
import stat
import tempfile
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from service.cli.options import AsJson
from service.cli.settings_options import read_cluster_settings, with_settings
from service.cli.terminal.output import print_json, print_note, print_table
from service.errors import UserError
from service.settings import ClusterSettings, Settings

SECONDS_BETWEEN = 1.0

cluster = typer.Typer(
    name="cluster",
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Run one collection on several machines.",
)
RayAddress = Annotated[
    str | None,
    typer.Option("--ray-address", help="Address of the Ray cluster, host:port. [REGARD_RAY_ADDRESS; auto]"),
]


def cluster_settings(ray_address: str | None, **given: Any) -> ClusterSettings:
    """The settings: those given, else those of the environment. UserError without the extra `cluster`."""
    if find_spec("ray") is None:
        raise UserError(
            "Ray is not installed: run `uv pip sync requirements.lock requirements-cluster.lock`, or use the image"
            " `cluster`"
        )
    values = {name: value for name, value in {**given, "ray_address": ray_address}.items() if value is not None}
    return read_cluster_settings(values)


@cluster.command()
@with_settings("role", "redis_url")
def up(
    settings: Settings,
    ray_address: RayAddress = None,
    shards: Annotated[int | None, typer.Option(help="Parts of a new collection. [REGARD_SHARDS; 1]")] = None,
    replicas: Annotated[int | None, typer.Option(help="Copies of each part. [REGARD_REPLICAS; 2]")] = None,
    write_quorum: Annotated[
        int | None, typer.Option(help="Copies that must store each change. [REGARD_WRITE_QUORUM; 1]")
    ] = None,
) -> None:
    """Start the stopped parts of a collection, and serve it.

    On the Ray cluster of this machine.
    """
    chosen = cluster_settings(ray_address, shards=shards, replicas=replicas, write_quorum=write_quorum)
    from service.auth.exposure import check_exposure
    from service.cluster.on_ray.bring_up import bring_up
    from service.storage.data_dir_lock import require_no_catalog

    check_exposure(settings)
    require_no_catalog(settings.data_dir)
    warn_of_readable_token()
    plan = bring_up(settings, chosen)
    begun = (shards, len(plan.shards)), (replicas, len(plan.shards[0])), (write_quorum, plan.write_quorum)
    if any(given not in (None, kept) for given, kept in begun):
        print_note(
            f"The collection keeps the shards, replicas and write quorum of {plan.write_quorum} that it was created"
            " with: `regard cluster add-shard` adds a shard."
        )
    print_note(f"{len(plan.shards)} shards with {len(plan.shards[0])} replicas each: `regard cluster status`")
    print(f"search at http://{settings.host}:{settings.port}", flush=True)


@cluster.command()
def status(ray_address: RayAddress = None, as_json: AsJson = False) -> None:
    """List the replicas: where each runs, and what it holds."""
    chosen = cluster_settings(ray_address)
    from service.cluster.on_ray.director import running_cluster
    from service.cluster.on_ray.overview import cluster_overview

    overview = cluster_overview(running_cluster(chosen))
    rows = [vars(row) for row in overview.replicas]
    if as_json:
        print_json({"is_growing": overview.is_growing, "stuck": overview.stuck, "replicas": rows})
        return
    cells = [["" if value is None else str(value) for value in row.values()] for row in rows]
    print_table("shard", "replica", "node", "state", "change", "ready", "queued", "failed", "free GB", rows=cells)
    if overview.is_growing:
        print_note("A shard is being added: pictures move to it.")
    if overview.stuck:
        print_note(about_stuck(overview.stuck))


@cluster.command("add-shard")
def add_shard(ray_address: RayAddress = None, wait: bool = True) -> None:
    """Add a shard, and move its share of the pictures to it.

    Searches continue meanwhile.
    """
    chosen = cluster_settings(ray_address)
    from service.cluster.on_ray.director import running_cluster

    number = running_cluster(chosen).add_shard()
    print_note(f"Shard {number} is there; its share of the pictures moves to it.")
    if wait:
        wait_until_balanced(chosen, number + 1)


@cluster.command()
def rebalance(ray_address: RayAddress = None) -> None:
    """Wait until every picture is in the shard that it belongs to."""
    wait_until_balanced(cluster_settings(ray_address))


@cluster.command()
def repair(
    shard: Annotated[int, typer.Argument(help="Number of the shard, from 0.")],
    replica: Annotated[int, typer.Argument(help="Number of the replica, from 0.")],
    ray_address: RayAddress = None,
) -> None:
    """Rebuild a replica that is lost for good.

    From another replica of its shard, on another node if possible.
    """
    chosen = cluster_settings(ray_address)
    from service.cluster.on_ray.director import running_cluster

    node = running_cluster(chosen).repair(shard, replica)
    print_note(
        f"Replica {replica} of shard {shard} is being rebuilt on {node}: `regard cluster status` shows its progress."
    )


@cluster.command()
def down(ray_address: RayAddress = None) -> None:
    """Stop routers and replicas; stored data stays in place."""
    chosen = cluster_settings(ray_address)
    from service.cluster.on_ray.bring_up import take_down

    take_down(chosen)


@cluster.command()
@with_settings("data_dir", "role", "host", "redis_url")
def demo(
    settings: Settings,
    photos: Annotated[
        Path | None,
        typer.Option("--photos", exists=True, file_okay=False, help="Folder of pictures to use; else they are drawn."),
    ] = None,
    pictures: Annotated[int, typer.Option(min=4, max=1000, help="How many pictures to use.")] = 120,
    clients: Annotated[int, typer.Option(min=1, help="How many clients search at a time.")] = 8,
) -> None:
    """Try a cluster of three nodes on this machine.

    Kills a node while clients search, and adds a shard. The last line counts faults; the status is 1 if an answer was
    wrong or a picture was lost. Your own service and data are not touched.
    """
    cluster_settings(None)
    from service.cluster.demo.local_nodes import end_at_sigterm, running_ray_cluster
    from service.cluster.demo.run import Demo, DemoPlan

    plan = DemoPlan(num_pictures=pictures, num_clients=clients, photos=photos)
    end_at_sigterm()
    scratch = tempfile.TemporaryDirectory(prefix="regard-cluster-", ignore_cleanup_errors=True)
    with scratch as folder, running_ray_cluster() as nodes:
        findings = Demo(nodes, settings.model_copy(update={"data_dir": Path(folder)}), plan, print_note).run()
    for fault in findings.faults[:20]:
        print_note(fault)
    if findings.refused:
        print_note(f"{findings.refused} requests were refused and are not counted as answers")
    print(findings)
    if not findings.is_good:
        raise typer.Exit(1)


def warn_of_readable_token() -> None:
    """Warn if other users of this machine can read Ray's token, with which they can run anything on the cluster."""
    given = os.environ.get("RAY_AUTH_TOKEN_PATH")
    token = Path(given) if given else Path.home() / ".ray" / "auth_token"
    with suppress(OSError):
        if token.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
            print_note(
                f"Other users of this machine can read {token}, and so run anything on this cluster: chmod 600 {token}"
            )


def about_stuck(count: int) -> str:
    """The message about pictures that cannot be moved."""
    return (
        f"{count} pictures stay where they are, since their originals are missing or unreadable: send them again, or"
        " delete them. The director's log names one."
    )


def wait_until_balanced(chosen: ClusterSettings, num_shards: int = 0) -> None:
    """Wait until no pictures are being moved. UserError if there are fewer than `num_shards` shards then."""
    from service.cluster.on_ray.director import running_cluster
    from service.cluster.on_ray.overview import cluster_overview

    running, stuck = running_cluster(chosen), 0
    while (overview := cluster_overview(running)).is_growing:
        if overview.stuck and overview.stuck != stuck:
            print_note(about_stuck(overview.stuck))
        stuck = overview.stuck
        time.sleep(SECONDS_BETWEEN)
    if overview.num_shards < num_shards:
        raise UserError(
            f"adding shard {num_shards - 1} failed: `regard cluster status` lists the shards,"
            " `regard cluster add-shard` tries again"
        )
    print_note("Every picture is in its shard.")
