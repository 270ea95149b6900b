"""Placement: every picture has one shard, shares are even, and a new shard takes only its own."""

from collections import Counter
from hashlib import sha256

import pytest

from service.cluster.placement import Placement, shard_of

IDS = [sha256(str(number).encode()).hexdigest()[:32] for number in range(20_000)]


@pytest.mark.parametrize("num_shards", [1, 2, 3, 7])
def test_shares_are_even(num_shards: int) -> None:
    counts = Counter(shard_of(image_id, num_shards) for image_id in IDS)
    assert sorted(counts) == list(range(num_shards))
    expected = len(IDS) / num_shards
    assert all(abs(count - expected) < 6 * expected**0.5 for count in counts.values())


def test_a_new_shard_takes_its_share_and_nothing_else_moves() -> None:
    before, after = ([shard_of(image_id, count) for image_id in IDS] for count in (3, 4))
    moved = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert {new for _, new in moved} == {3}
    assert {old for old, _ in moved} == {0, 1, 2}
    assert len(moved) == Counter(after)[3]


def test_placement_never_changes_with_a_release() -> None:
    assert [shard_of(image_id, 5) for image_id in ("0" * 32, "f" * 32, "0123456789abcdef" * 2)] == PLACED


PLACED = [0, 2, 1]  # of release 0.2: pictures would have to move if this changed


def test_while_pictures_move_they_are_looked_for_in_both_places() -> None:
    assert all(Placement(3).places(image_id) == [shard_of(image_id, 3)] for image_id in IDS[:100])
    for image_id in IDS[:1000]:
        new, old = shard_of(image_id, 4), shard_of(image_id, 3)
        assert Placement(4, moving_from=3).places(image_id) == ([new] if new == old else [3, old])
