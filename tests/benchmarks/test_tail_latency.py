"""The simulation against what is known by formula: fan-out, loss, queues, hedging."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from benchmarks.tail_latency import Cluster, ServiceTimes, hedged, queue_waits, simulate
from service.cluster.routing.one_round_trip import local_candidates

MEAN = 5.0
NOTHING = np.full(1, 1e-9)
TIMES = ServiceTimes(
    encode=np.zeros(1),
    shortlist=np.random.default_rng(0).exponential(MEAN, 200_000),
    rerank=NOTHING,
    call=np.zeros(1),
    rows=1000,
    candidates=100,
    rerank_one=0.0,
)
PLAIN = Cluster(shards=1, hedge=False, stragglers=0.0, round_trips=1, deadline_ms=1e9)


@pytest.mark.parametrize("shards", [1, 3, 30])
def test_a_fan_out_of_exponential_times_has_the_mean_of_the_harmonic_number(shards: int) -> None:
    outcome = simulate(TIMES, replace(PLAIN, shards=shards), 20_000, seed=1)
    harmonic = sum(1 / k for k in range(1, shards + 1))
    assert outcome.latency_ms.mean() == pytest.approx(MEAN * harmonic, rel=0.03)


def test_the_median_of_the_slowest_shard_is_a_high_percentile_of_one() -> None:
    outcome = simulate(TIMES, replace(PLAIN, shards=10), 20_000, seed=2)
    assert outcome.percentiles()["p50"] == pytest.approx(-MEAN * np.log(1 - 0.5 ** (1 / 10)), rel=0.03)


@pytest.mark.parametrize("round_trips", [1, 2])
@pytest.mark.parametrize("replicas", [1, 2])
def test_as_many_answers_are_partial_as_shards_are_lost(replicas: int, round_trips: int) -> None:
    cluster = replace(PLAIN, shards=20, replicas=replicas, lost=0.1, round_trips=round_trips)
    outcome = simulate(TIMES, cluster, 20_000, seed=3)
    assert outcome.whole.mean() == pytest.approx((1 - 0.1**replicas) ** 20, abs=0.015)


def test_nobody_waits_for_a_shard_that_is_known_to_be_gone() -> None:
    gone = replace(PLAIN, shards=3, lost=1.0, notice_ms=80.0)
    for replicas in (1, 2):
        outcome = simulate(TIMES, replace(gone, replicas=replicas), 10, seed=3)
        assert not outcome.whole.any()
        assert outcome.latency_ms == pytest.approx(replicas * 80.0)


def test_what_takes_longer_than_the_deadline_is_partial() -> None:
    outcome = simulate(TIMES, replace(PLAIN, deadline_ms=MEAN), 20_000, seed=3)
    assert outcome.whole.mean() == pytest.approx(1 - np.exp(-1), abs=0.015)
    assert outcome.latency_ms.max() == MEAN


@pytest.mark.parametrize("lost", [0.0, 0.02])
@pytest.mark.parametrize("round_trips", [1, 2])
def test_hedging_never_makes_the_tail_worse(round_trips: int, lost: float) -> None:
    cluster = Cluster(shards=10, round_trips=round_trips, lost=lost, hedge=False)
    alone = simulate(TIMES, cluster, 4000, seed=4)
    both = simulate(TIMES, replace(cluster, hedge=True), 4000, seed=4)
    assert (both.latency_ms <= alone.latency_ms).all()
    assert both.percentiles()["p99"] < alone.percentiles()["p99"]
    assert both.whole.sum() >= alone.whole.sum()
    assert 0.02 < both.hedged < 0.08


Milliseconds = arrays.arrays(float, 6, elements=st.floats(0, 1e6))


@given(Milliseconds, Milliseconds, arrays.arrays(bool, (2, 6)), st.floats(0, 1e6), st.floats(0, 1e6))
def test_a_second_request_is_never_waited_for_longer(
    first: Any, second: Any, away: Any, delay: float, notice: float
) -> None:
    answer, _ = hedged(first, second, away, delay, notice)
    alone, _ = hedged(first, second, away, np.inf, notice)
    assert (answer <= alone).all()
    assert np.isinf(answer[away.all(axis=0)]).all()
    assert (answer[~away[0]] <= first[~away[0]]).all()
    only_second = away[0] & ~away[1]
    assert answer[only_second] == pytest.approx(min(delay, notice) + second[only_second])


def test_a_seed_draws_the_same_queries() -> None:
    cluster = replace(PLAIN, shards=3, stragglers=0.05, rate=20.0, lost=0.01)
    once, again, other = (simulate(TIMES, cluster, 500, seed) for seed in (7, 7, 8))
    assert np.array_equal(once.latency_ms, again.latency_ms)
    assert not np.array_equal(once.latency_ms, other.latency_ms)


@given(arrays.arrays(float, 20, elements=st.floats(0, 100)), arrays.arrays(float, 20, elements=st.floats(0, 100)))
def test_waits_are_those_of_the_recursion(gaps: Any, works: Any) -> None:
    expected = [0.0]
    for number in range(1, 20):
        expected.append(max(0.0, expected[-1] + works[number - 1] - gaps[number]))
    assert queue_waits(gaps, works) == pytest.approx(expected, abs=1e-9)


def test_a_queue_of_exponential_times_waits_as_long_as_it_must() -> None:
    rng, load = np.random.default_rng(5), 0.6
    waits = queue_waits(rng.exponential(MEAN / load, 1_000_000), rng.exponential(MEAN, 1_000_000))
    assert waits.mean() == pytest.approx(MEAN * load / (1 - load), rel=0.05)


def test_a_busier_cluster_answers_later() -> None:
    cluster = replace(PLAIN, shards=3, replicas=2)
    busy = replace(cluster, rate=0.8 * 2 * 1000 / MEAN)
    idle_p95, busy_p95 = (simulate(TIMES, one, 4000, seed=6).percentiles()["p95"] for one in (cluster, busy))
    assert busy_p95 > 2 * idle_p95


@pytest.mark.parametrize("shards", [2, 3, 30])
def test_a_shard_reranks_enough_of_its_own_and_not_more(shards: int) -> None:
    enough = local_candidates(100, shards)
    held = np.random.default_rng(8).multinomial(100, np.full(shards, 1 / shards), size=50_000).max(axis=1)
    assert (held > enough).mean() <= 0.011
    assert (held > enough - 2).mean() > 0.01
    assert local_candidates(100, 1) == 100


def test_reranking_takes_a_share_by_its_candidates() -> None:
    times = replace(TIMES, rerank=np.full(3, 2.0), rerank_one=0.5)
    assert times.rerank_share([0, 1, 100]) == pytest.approx([0, 0.25, 1])
    assert times.rerank_share(50) == pytest.approx(0.25 + 0.75 * 49 / 99)


def test_a_larger_shard_takes_longer_by_its_rows() -> None:
    larger = replace(TIMES, ns_per_row=10.0).for_rows(1_001_000)
    assert larger.shortlist - TIMES.shortlist == pytest.approx(10.0)


def test_two_round_trips_take_another_call_where_a_shard_holds_more_than_its_likely_share() -> None:
    slow = replace(TIMES, shortlist=np.zeros(1), call=np.full(1, 50.0))
    once, twice = (simulate(slow, replace(PLAIN, shards=3, round_trips=trips), 20_000, seed=9) for trips in (1, 2))
    assert once.latency_ms == pytest.approx(50)
    again = (twice.latency_ms > 75).mean()
    assert 0.001 < again <= 0.011
    assert twice.latency_ms == pytest.approx(np.where(twice.latency_ms > 75, 100, 50))


def test_reranking_that_took_no_time_takes_none() -> None:
    times = replace(TIMES, rerank=np.zeros(3), rerank_one=0.0)
    assert np.isfinite(times.rerank_share([0, 1, 100])).all()
