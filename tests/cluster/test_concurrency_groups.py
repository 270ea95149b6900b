"""Searches and looks at how a replica is do not wait for changes, however many of them wait for each other."""

import inspect
import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from service.cluster.demo.local_nodes import RayCluster
from service.cluster.on_ray.bring_up import DIRECTOR_GROUPS, DirectorActor
from service.cluster.on_ray.remote import GROUPS, ReplicaActor
from service.cluster.shards.journal import ORIGIN, JournalEntry

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(1200)]
BUSY = 2 * sum(GROUPS.values())
remote: Any = ray.remote  # its types lack concurrency groups


class HeldNode:
    """A shard whose changes and catching up take until a search ends them."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self.replica = SimpleNamespace(position=lambda: ORIGIN)

    def ask(self, at_least: int, method: str, arguments: Sequence[Any], num_shards: int | None) -> str:
        if method == "end":
            self._ended.set()
        return method

    def apply(self, entry: JournalEntry, files: object) -> bool:
        return self._ended.wait()

    def follow(self, sibling: object) -> bool:
        return self._ended.wait()


class HeldReplica(ReplicaActor):
    """A replica's actor around such a shard."""

    def __init__(self) -> None:
        self._host = SimpleNamespace(node=HeldNode(), is_open=True)  # type: ignore[assignment]


class HeldDirector(DirectorActor):
    """A director's actor whose changes take until its plan is asked for."""

    def __init__(self) -> None:
        ended = threading.Event()
        self._director = SimpleNamespace(write=lambda *_: ended.wait(), plan=ended.set)  # type: ignore[assignment]
        self._settings = {}


@pytest.mark.parametrize(("actor", "groups"), [(ReplicaActor, GROUPS), (DirectorActor, DIRECTOR_GROUPS)])
def test_every_call_has_threads_of_its_kind(actor: type, groups: dict[str, int]) -> None:
    calls = {name: call for name, call in inspect.getmembers(actor, inspect.isfunction) if name[0] != "_"}
    assert {getattr(call, "__ray_concurrency_group__", name) for name, call in calls.items()} == set(groups)


def test_looks_do_not_wait_for_changes(ray_cluster: RayCluster) -> None:
    director = remote(concurrency_groups=DIRECTOR_GROUPS)(HeldDirector).options(num_cpus=0).remote()
    many = 2 * sum(DIRECTOR_GROUPS.values())
    changes = [director.write.remote(0, None, {}, 1) for _ in range(many)]
    assert ray.get(director.settings.remote()) == {}
    assert ray.wait(changes, timeout=0)[0] == []
    ray.get(director.plan.remote())
    assert [outcome.value for outcome in ray.get(changes)] == [True] * many
    ray.kill(director)


def test_searches_do_not_wait_for_changes(ray_cluster: RayCluster) -> None:
    replica = remote(concurrency_groups=GROUPS)(HeldReplica).options(num_cpus=0).remote()
    changes = [replica.apply.remote(JournalEntry(1, "", b""), {}) for _ in range(BUSY)]
    assert ray.get(replica.ask.remote(0, "state", ())).value == "state"
    assert ray.get(replica.position.remote()) == ORIGIN
    assert ray.wait(changes, timeout=0)[0] == []
    assert ray.get(replica.ask.remote(0, "end", ())).value == "end"
    assert [outcome.value for outcome in ray.get(changes)] == [True] * BUSY
    ray.kill(replica)
