"""The share of a shortlist that a shard scores at once: enough but for one search in a hundred, and no more."""

from math import comb

import pytest

from service.cluster.routing.one_round_trip import MISSED, local_candidates


def missed(candidates: int, shards: int, kept: int) -> float:
    """The bound that is promised, in plain fractions: shards times the chance of more balls in an urn than kept."""
    more = range(kept + 1, candidates + 1)
    chances = sum(shards * comb(candidates, k) * (shards - 1) ** (candidates - k) / shards**candidates for k in more)
    return float(chances)


@pytest.mark.parametrize("shards", [2, 3, 5, 40, 300])
@pytest.mark.parametrize("candidates", [1, 7, 100])
def test_the_share_is_the_smallest_that_keeps_the_promise(candidates: int, shards: int) -> None:
    kept = local_candidates(candidates, shards)
    assert missed(candidates, shards, kept) <= MISSED
    assert kept == 1 or missed(candidates, shards, kept - 1) > MISSED


def test_one_shard_keeps_all_and_many_candidates_are_no_obstacle() -> None:
    assert local_candidates(1000, 1) == 1000
    assert 1000 / 3 < local_candidates(1000, 3) < 400
    assert 5000 < local_candidates(10_000, 2) < 5200
