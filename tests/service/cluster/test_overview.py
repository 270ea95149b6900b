"""The overview of a cluster is shown soon, whatever replicas are away and shards are not started yet."""

from concurrent.futures import Future
from typing import Any

import pytest

from service.cluster.cluster_view import ClusterView, ShardView
from service.cluster.directing.director import ClusterPlan
from service.cluster.on_ray import overview
from service.cluster.on_ray.overview import cluster_overview
from service.errors import UserError


class Patient(Future[Any]):
    """An answer that never comes; it notes for how long it was waited for."""

    def __init__(self, waits: list[float | None]) -> None:
        super().__init__()
        self._waits = waits

    def result(self, timeout: float | None = None) -> Any:
        self._waits.append(timeout)
        return super().result(timeout)


class Cluster:
    """Shards of one replica each, none of which answers; only the first was started so far."""

    def __init__(self, num_shards: int) -> None:
        self._num_shards, self.waits = num_shards, list[float | None]()

    def plan(self) -> ClusterPlan:
        return ClusterPlan((("a",),) * self._num_shards, 1)

    def view(self) -> ClusterView:
        return ClusterView([ShardView(frozenset({0}), 1, 0)])

    def status(self, shard: int, number: int) -> "Future[Any]":
        return Patient(self.waits)

    def add_shard(self) -> int:
        raise UserError("not here")

    def repair(self, shard: int, number: int) -> str:
        raise UserError("not here")


def test_replicas_that_are_away_are_waited_for_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "STATUS_S", 0.01)
    cluster = Cluster(20)
    rows = cluster_overview(cluster).replicas
    assert [(row.shard, row.state) for row in rows] == [(shard, "away") for shard in range(20)]
    assert sum(wait or 0.0 for wait in cluster.waits) <= overview.STATUS_S
