"""A collection on three nodes loses one of them: nothing is wrong, nothing is lost, what is partial says so."""

from pathlib import Path

import pytest

from service.cluster.demo.local_nodes import RayCluster
from service.cluster.demo.run import Demo, DemoPlan, RightAnswer
from service.settings import Settings
from tests.support.small_services import small_service

HITS = [("a", 3.0), ("b", 2.0), ("c", 1.0)]


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.timeout(2400)  # a dozen processes load their models on two cores, some of them twice
def test_a_node_is_lost_and_a_shard_is_added_under_load(
    ray_cluster: RayCluster, free_port: int, tmp_path: Path
) -> None:
    small = small_service(tmp_path)
    models, detector = (small["models"].partition(",")[0],), Path(small["detector"])
    settings = Settings(data_dir=tmp_path / "data", port=free_port, models=models, detector=detector, threads=1)
    plan = DemoPlan(num_pictures=8, num_late=2, num_clients=2)
    findings = Demo(ray_cluster, settings, plan, print).run()
    assert findings.faults == []
    assert findings.lost == 0
    assert (findings.nodes, findings.killed) == (3, 1)
    assert findings.asked > findings.refused + findings.partial
    assert str(findings).startswith(f"nodes 3, killed 1, asked {findings.asked}, wrong 0, lost 0, partial ")


def answer(*hits: tuple[str, float], answered: int = 2) -> dict[str, object]:
    results = [{"image_id": image_id, "score": score} for image_id, score in hits]
    return {"results": results, "shards": {"asked": 2, "answered": answered}}


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        (answer(*HITS), None),
        (answer(*HITS[:2]), None),
        (answer(HITS[0], HITS[2]), "is missing"),
        (answer(HITS[0], HITS[2], answered=1), None),
        (answer(HITS[1], HITS[0], answered=1), "order"),
        (answer(("d", 2.5), answered=1), "does not belong"),
        (answer(("a", 2.9)), "score"),
    ],
)
def test_an_answer_is_judged_by_the_whole_ranking(given: dict[str, object], fault: str | None) -> None:
    found = RightAnswer([name for name, _ in HITS], [score for _, score in HITS]).fault(given)
    assert (found is None) == (fault is None)
    assert fault is None or fault in (found or "")
