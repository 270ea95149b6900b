"""What shards found is merged to one ranking, in which a picture on its way counts once, where it stays."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.cluster.messages import RankedName, ShardRanking
from service.cluster.routing.merging import RowTable, merged_candidates


def ranking(*found: tuple[str, float]) -> ShardRanking[str]:
    ordered = sorted(found, key=lambda one: -one[1])
    return ShardRanking([RankedName(name, product, 0.0) for name, product in ordered], [], len(found))


@pytest.mark.parametrize("rounding", [-1e-7, 0.0, 1e-7])
def test_a_picture_in_two_shards_is_asked_of_the_later_one(rounding: float) -> None:
    rows = RowTable[str]()
    parts = {0: ranking(("a", 0.9), ("moved", 0.5 + rounding)), 2: ranking(("moved", 0.5), ("b", 0.4))}
    found = merged_candidates(parts, 10, rows)
    assert [rows.names[row] for row in found.rows] == ["a", "moved", "b"]
    assert rows.by_shard(found.rows) == {0: ["a"], 2: ["moved", "b"]}
    assert rows.elsewhere(["a", "moved", "b"]) == {0: ["moved"]}
    rows.move_all({0: ["moved"]})
    assert rows.by_shard(found.rows) == {0: ["a", "moved"], 2: ["b"]}
    assert rows.elsewhere(["moved"]) == {2: ["moved"]}


@given(products=st.lists(st.floats(-1, 1, width=32), max_size=30), num_shards=st.integers(1, 5), k=st.integers(1, 40))
def test_the_ranking_is_that_of_all_pictures_together(products: list[float], num_shards: int, k: int) -> None:
    parts = {
        shard: ranking(*((f"{n}", one) for n, one in enumerate(products) if n % num_shards == shard))
        for shard in range(num_shards)
    }
    rows = RowTable[str]()
    found = merged_candidates(parts, k, rows)
    assert np.array_equal(found.scores, np.array(sorted(products, reverse=True)[:k], np.float32))
    assert all(int(rows.names[row]) % num_shards == rows.shards[row] for row in found.rows)
