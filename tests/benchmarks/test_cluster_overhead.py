"""What is made of latencies that were measured, and that the simulation knows a cluster by its service times."""

from typing import Any

import numpy as np
import pytest

from benchmarks.cluster_overhead import Latencies, assert_same, bootstrap_interval
from benchmarks.cluster_simulation import agreement
from benchmarks.shard_probe import beyond
from service.cluster.routing.one_round_trip import local_candidates

SHARDS, CANDIDATES = 3, 100


def test_shards_are_as_much_slower_as_the_pairs_say() -> None:
    draw = np.random.default_rng(1)
    alone = draw.gamma(4.0, 5.0, 300)
    found = Latencies(1, list(alone), list(alone + draw.normal(8.0, 1.0, 300)))
    report = found.report()
    low, high = report["paired difference"]["interval"]
    assert low <= report["paired difference"]["median"] <= high
    assert low < 8.0 < high
    assert high - low < 1.0
    assert report["slower at the median"] == pytest.approx(8.0, abs=3.0)
    assert bootstrap_interval(np.full(50, 2.0)) == (2.0, 2.0)


def test_answers_that_differ_are_no_measurement() -> None:
    one: dict[str, Any] = {"query": "red", "results": [{"image_id": "a"}, {"image_id": "b"}]}
    assert_same(one, one)
    with pytest.raises(AssertionError, match="'red' is answered differently"):
        assert_same(one, {**one, "results": one["results"][::-1]})


def measured(factor: float) -> dict[str, Any]:
    """A file of a run whose queries were made of its service times, one after the other, and then slowed down."""
    draw = np.random.default_rng(2)
    samples = {
        "encode": draw.gamma(9.0, 1.0, 400),
        "front": draw.gamma(16.0, 0.5, 400),
        "call": draw.gamma(4.0, 0.5, 400),
        "shortlist": draw.gamma(4.0, 0.3, 400),
        "rerank": draw.gamma(4.0, 0.5, 400),
    }
    spent = []
    for _ in range(1000):
        one = {name: draw.choice(values, SHARDS) for name, values in samples.items()}
        shards = max(one["call"] + one["shortlist"] + one["rerank"])
        spent.append(factor * (one["front"][0] + one["encode"][0] + shards))
    return {
        **{f"{name}_ms": list(values) for name, values in samples.items()},
        "candidates": local_candidates(CANDIDATES, SHARDS),
        "shortlisted": CANDIDATES,
        "rerank_one_ms": 0.1,
        "rows": 67,
        "ns_per_row": 5.0,
        "shards": SHARDS,
        "round_trips": 2,
        "hedge": False,
        "end_to_end_ms": spent,
    }


@pytest.mark.parametrize(("factor", "agrees"), [(1.0, True), (1.5, False), (0.6, False)])
def test_the_simulation_is_believed_where_it_tells_what_was_measured(factor: float, agrees: bool) -> None:
    found = agreement(measured(factor), 2000, seed=1)
    assert found["agrees"] is agrees


def test_scoring_takes_what_a_call_takes_more_and_never_less_than_nothing() -> None:
    assert beyond([5.0, 2.0, 3.5], [1.5, 2.5, 3.5]) == [3.5, 0.0, 0.0]
