"""One cluster of three nodes for all tests in here: starting one takes longer than most of them."""

from collections.abc import Iterator

import pytest
import ray

from service.cluster.demo.local_nodes import RayCluster, running_ray_cluster


@pytest.fixture(scope="package")  # also idle, its processes take time from the tests that follow
def running_cluster() -> Iterator[RayCluster]:
    """The cluster, whatever the last test left of it."""
    with running_ray_cluster() as cluster:
        yield cluster


@pytest.fixture
def ray_cluster(running_cluster: RayCluster) -> Iterator[RayCluster]:
    """The cluster with all its nodes running, and no actors but those that the test makes."""
    running_cluster.start_all()
    yield running_cluster
    for name in ray.util.list_named_actors():
        ray.kill(ray.get_actor(name))
