"""What Regard relies on Ray for: actors stay where they are put, end with their node and come back with it."""

import os
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.exceptions import GetTimeoutError, RayActorError

from service.cluster.demo.local_nodes import NODES, RayCluster
from service.cluster.on_ray.bring_up import DIRECTOR_GROUPS, DirectorActor, check_running
from service.cluster.on_ray.nodes import LABEL, RayNodes, living_nodes
from service.cluster.on_ray.remote import DIRECTOR, NAMESPACE, dumped_settings, replica_name
from service.errors import UserError
from service.settings import Settings
from service.this_machine import is_running
from tests.support.processes import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(1200)]


class Resident:
    """Tells which process it is, on which node."""

    @ray.method
    def process(self) -> int:
        """The id of its process."""
        return os.getpid()

    @ray.method
    def niceness(self) -> int:
        """The niceness of its process."""
        return os.getpriority(os.PRIO_PROCESS, 0)

    @ray.method
    def node(self) -> str:
        """The name of its node."""
        return str(ray.get_runtime_context().get_node_labels()[LABEL])


def process_of(name: str, patience_s: float | None = None) -> int | None:
    """The process of a resident; None where it does not answer in time, or is lost."""
    try:
        resident: Any = ray.get_actor(name)
        return int(ray.get(resident.process.remote(), timeout=patience_s))
    except (RayActorError, GetTimeoutError):
        return None


def test_an_actor_ends_with_its_node_and_comes_back_with_it(ray_cluster: RayCluster) -> None:
    resident = ray.remote(Resident)
    for name in NODES:
        options = resident.options(
            name=name, lifetime="detached", max_restarts=-1, num_cpus=0.1, label_selector={LABEL: name}
        )
        assert ray.get(options.remote().node.remote()) == name
    before = {name: process_of(name) for name in NODES}

    ray_cluster.kill("node-2")
    assert not is_running(before["node-2"] or 0)
    assert process_of("node-2", 5) is None
    wait_until(lambda: {node["Labels"][LABEL] for node in living_nodes()} == {"node-0", "node-1"})
    assert [process_of(name) for name in ("node-0", "node-1")] == [before["node-0"], before["node-1"]]

    ray_cluster.start("node-2")
    wait_until(lambda: process_of("node-2", 5) is not None)
    assert process_of("node-2") != before["node-2"]
    again: Any = ray.get_actor("node-2")
    assert ray.get(again.node.remote()) == "node-2"


def test_an_actor_is_as_nice_as_who_started_its_node(ray_cluster: RayCluster) -> None:
    resident: Any = ray.remote(Resident).options(num_cpus=0).remote()
    assert ray.get(resident.niceness.remote()) == os.getpriority(os.PRIO_PROCESS, 0)
    ray.kill(resident)


def test_all_replicas_are_ended_also_those_that_no_plan_names(ray_cluster: RayCluster) -> None:
    names = [replica_name(0, 0), replica_name(7, 1), "somebody-else"]
    for name in names:
        options = ray.remote(Resident).options(name=name, namespace=NAMESPACE, lifetime="detached", num_cpus=0)
        ray.get(options.remote().process.remote())
    RayNodes({}).stop_all()
    RayNodes({}).stop_all()
    for name in names[:2]:
        with pytest.raises(ValueError, match=name):
            ray.get_actor(name, NAMESPACE)
    ray.kill(ray.get_actor(names[2], NAMESPACE))


def test_a_running_collection_stays_where_and_as_it_is(ray_cluster: RayCluster, tmp_path: Path) -> None:
    plain, address = dumped_settings(Settings(data_dir=tmp_path, models=("caan",))), ("127.0.0.1", 8642)
    check_running(plain, address)  # nothing runs
    options = {"name": DIRECTOR, "namespace": NAMESPACE, "lifetime": "detached", "num_cpus": 0}
    remote: Any = ray.remote  # its types lack concurrency groups
    director = remote(concurrency_groups=DIRECTOR_GROUPS)(DirectorActor).options(**options).remote(plain, address)
    assert ray.get(director.plan.remote()) is None
    check_running(plain, address)
    with pytest.raises(UserError, match=r"is served at http://127\.0\.0\.1:8642: `regard cluster down` first"):
        check_running(plain, ("127.0.0.1", 8645))
    with pytest.raises(UserError, match=r"runs with models = \['caan'\]: `regard cluster down` first"):
        check_running(dumped_settings(Settings(data_dir=tmp_path, models=("sman",))), address)
    with pytest.raises(UserError, match="another collection runs on this Ray, that of"):  # as a demo's does
        check_running({**plain, "data_dir": "/elsewhere"}, ("127.0.0.1", 8645))
    ray.kill(director)
