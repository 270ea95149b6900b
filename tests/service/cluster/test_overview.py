"""The overview of a cluster is shown soon, whatever replicas are away and shards are not started yet."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from service.cluster.cluster_view import ClusterView, ShardView
from service.cluster.directing.plan import ClusterPlan
from service.cluster.on_ray import overview


def test_replicas_that_are_away_are_waited_for_together(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = list[float | None]()

    class Silent(Future[Any]):
        def result(self, timeout: float | None = None) -> Any:
            waits.append(timeout)
            return super().result(timeout)

    monkeypatch.setattr(overview, "STATUS_S", 0.01)
    plan, view = ClusterPlan((("a",),) * 20, 1), ClusterView([ShardView(frozenset({0}), 1, 0)])
    cluster: Any = SimpleNamespace(plan=lambda: plan, view=lambda: view, status=lambda *_: Silent())
    assert [row.state for row in overview.cluster_overview(cluster).replicas] == ["away"] * 20
    assert waits == [0] * 20
