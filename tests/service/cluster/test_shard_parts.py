"""The parts of a replica are asked by the names of their methods alone, which therefore differ."""

from collections import Counter

from service.cluster.shards.lists import ShardLists
from service.cluster.shards.search import ShardSearch


def test_no_two_parts_have_a_method_of_one_name() -> None:
    names = Counter(name for part in (ShardSearch, ShardLists) for name in vars(part) if not name.startswith("_"))
    assert names.most_common(1)[0][1] == 1
    assert "http" not in names
