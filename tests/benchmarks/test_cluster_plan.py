"""The plan's arithmetic, the files it reads, and the page that quotes it."""

import json
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.cluster_figures import FIGURES, SERVICE_TIMES
from benchmarks.cluster_plan import (
    RANKED_BYTES,
    SCORE_BYTES,
    Machine,
    Plan,
    amount,
    first_limits,
    markdown,
    network_bytes,
    nodes,
    num_shards,
    plan_rows,
    queries_a_second,
    record_bytes,
    search_ms,
)
from benchmarks.cluster_simulation import QUERIES, agreement, main
from benchmarks.tail_latency import Cluster, ServiceTimes, simulate
from service.cluster.messages import RankedName
from service.cluster.routing.one_round_trip import local_candidates
from tests.support.project_files import ROOT

SMALL = {
    "region_record": 1000,
    "views": {"m": {"record": 500, "embedding": 448, "embed_dim": 100}},
    "us_per_pair": {"m": 10.0},
    "stage_one": {"inverted_ns_per_row": 10.0},
    "query_bytes": {"sentence": 1000},
    "stored": {"catalog.sqlite": 50, "thumbnails": 100},
}
MACHINE = Machine(memory=1e9, memory_share=0.5, disk=1e10, disk_share=1.0, cores=2)
PLAN = Plan(machine=MACHINE, model="m", original=1000, scan_ms=20)


def test_a_picture_takes_what_its_records_take() -> None:
    assert record_bytes(SMALL, PLAN) == 1000 + 500 + 448 + 112 + 8 + 50 + 100


def test_shards_follow_the_tighter_bound() -> None:
    assert num_shards(2_500_000, SMALL, PLAN) == 2  # 300 MB of codes over 0.5 GB; 25 ms over 20
    assert num_shards(2_500_000, SMALL, replace(PLAN, scan_ms=5)) == 5
    assert num_shards(2_500_000, SMALL, replace(PLAN, machine=replace(MACHINE, memory=1e8))) == 6
    assert nodes(2_500_000, SMALL, PLAN, originals=False) == {"memory": 2, "disk": 2, "cores": 2}


def test_a_shard_is_busy_with_its_rows_and_its_part_of_the_candidates() -> None:
    share_ms = local_candidates(100, 2) / 100
    assert search_ms(2_500_000, SMALL, PLAN) == pytest.approx((12.5, share_ms))
    assert queries_a_second(2_500_000, SMALL, PLAN) == pytest.approx(2 * 2 * 0.5 * 1000 / (12.5 + share_ms))


def test_queries_travel_and_records_stay() -> None:
    assert network_bytes(3, SMALL, PLAN) == 3 * (1000 + 100 * RANKED_BYTES + 46 * SCORE_BYTES)


def test_candidates_travel_in_as_many_bytes_as_they_are_pickled_in() -> None:
    def pickled(count: int) -> int:
        ranked = [RankedName(f"{number:032x}", 1 / (number + 3), 1.7e9 + number / 7) for number in range(count)]
        return len(pickle.dumps((ranked, {one.name: np.float32(one.product) for one in ranked})))

    assert (pickled(1100) - pickled(100)) / 1000 == pytest.approx(RANKED_BYTES + SCORE_BYTES, abs=2)


def test_one_machine_ends_where_a_resource_does() -> None:
    limits = first_limits(SMALL, PLAN)
    assert limits["codes in memory"] == pytest.approx(5e8 / 120)
    assert limits["disk, with originals"] == pytest.approx(1e10 / 4218)
    assert limits["stage one on one core within 20 ms"] == pytest.approx(2e6)


@pytest.mark.parametrize(
    ("count", "written"), [(0, "0 B"), (999, "999 B"), (999_999, "1 MB"), (1.54e12, "1.54 TB"), (30_464, "30.5 kB")]
)
def test_amounts_are_written_for_people(count: float, written: str) -> None:
    assert amount(count) == written


def test_the_page_quotes_the_plan() -> None:
    figures = json.loads(FIGURES.read_text(encoding="utf-8"))
    table = markdown(plan_rows(figures, Plan()))
    page = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    assert table in page, "run `python -m benchmarks.cluster_simulation plan`, and put the table into the page"


def measured_file(folder: Path, slower: float) -> Path:
    """What a run of three shards would have measured, made by the simulation itself."""
    held = json.loads(SERVICE_TIMES.read_text(encoding="utf-8"))
    cluster = Cluster(shards=3, stragglers=0.0)
    outcome = simulate(ServiceTimes.from_json(held), cluster, 2000, seed=11)
    held |= {"shards": 3, "round_trips": 2, "hedge": True}
    path = folder / "measured.json"
    path.write_text(json.dumps(held | {"end_to_end_ms": list(slower * outcome.latency_ms)}))
    return path


@pytest.mark.parametrize(("slower", "agrees"), [(1.0, True), (1.15, True), (1.4, False), (0.7, False)])
def test_a_simulation_is_believed_only_where_it_was_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], slower: float, agrees: bool
) -> None:
    path = measured_file(tmp_path, slower)
    assert agreement(json.loads(path.read_text()), 2000, seed=1)["agrees"] is agrees
    monkeypatch.setattr("sys.argv", ["cluster_simulation", "validate", "--measured", str(path)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == (0 if agrees else 1)
    assert json.loads(capsys.readouterr().out)["agrees"] is agrees


def test_the_same_command_prints_the_same_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("benchmarks.cluster_simulation.SHARDS", (1, 3))
    printed = []
    for seed in ("1", "1", "2"):
        monkeypatch.setattr("sys.argv", ["cluster_simulation", "simulate", "--seed", seed, "--queries", "200"])
        main()
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] != printed[2]
    assert printed[0].count("\n") == 4


def test_the_simulation_agrees_with_what_was_recorded_and_the_page_says_by_how_much() -> None:
    measured = json.loads((FIGURES.parent / "cluster_latency.json").read_text(encoding="utf-8"))
    found = agreement(measured, QUERIES, seed=1)
    assert found["agrees"], "run `python -m benchmarks.cluster_overhead --write`"
    page = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    for kind in ("measured", "simulated"):
        row = " | ".join(f"{found[kind][name]:.1f} ms" for name in ("p50", "p95", "p99"))
        assert f"| {kind} | {row} |" in page
