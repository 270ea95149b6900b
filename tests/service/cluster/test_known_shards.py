"""What a router knows of shards: what the director told last, and what replicas told since."""

from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

import pytest

from service.cluster.cluster_view import ClusterView, ShardView
from service.cluster.messages import NewerPlacement, check_placement
from service.cluster.placement import Placement
from service.cluster.routing.known_shards import KnownShards
from service.cluster.shards.lists import ShardLists


@dataclass(frozen=True)
class Reached:
    """A replica that says what was required of it when it is asked."""

    shard: int
    number: int
    at_least: int = 0
    num_shards: int = 0
    placed_among: int = 0

    @property
    def name(self) -> str:
        return f"{self.shard}-{self.number}"

    def requiring(self, at_least: int, num_shards: int) -> "Reached":
        return replace(self, at_least=at_least, num_shards=num_shards)

    def call(self, method: str, *arguments: Any) -> "Future[Any]":
        answer: Future[Any] = Future()
        try:
            check_placement(self.num_shards, self.placed_among)
            answer.set_result((self.name, self.at_least))
        except NewerPlacement as fault:
            answer.set_exception(fault)
        return answer


def view(*sequences: int, **fields: Any) -> ClusterView:
    return ClusterView([ShardView(frozenset({0, 1}), 3, sequence) for sequence in sequences], **fields)


def test_members_are_asked_for_every_change_that_is_known_of() -> None:
    shards = KnownShards(5.0, Reached)
    shards.take(view(4, 7))
    asked = [[(one.name, one.at_least) for one in own] for own in shards.fan_out.replicas]  # type: ignore[attr-defined]
    assert asked == [[("0-0", 4), ("0-1", 4)], [("1-0", 7), ("1-1", 7)]]
    shards.written(1, 9)
    shards.take(view(0, 8))  # of a director that was started again
    for shard, at_least in ((1, 9), (0, 4)):
        answers: dict[int, Any] = dict(shards.fan_out.ask(ShardLists.counts, {0: (), 1: ()}))
        assert answers[shard][1] == at_least
    shards.take(ClusterView([ShardView(frozenset(), 2, 1)]))  # nobody has every change: all may be asked who has
    assert [one.name for one in shards.fan_out.replicas[0]] == ["0-0", "0-1"]


def test_a_shard_that_only_replicas_know_of_is_asked_and_does_not_answer() -> None:
    shards = KnownShards(5.0, lambda shard, number: Reached(shard, number, placed_among=3))
    shards.take(view(1, 1))
    assert shards.placement() == Placement(2)
    with pytest.raises(NewerPlacement):
        shards.fan_out.ask(ShardLists.counts, {0: (), 1: ()})
    assert len(shards.fan_out.replicas) == 3
    assert shards.placement() == Placement(3, moving_from=2)
    assert sorted(shards.fan_out.ask(ShardLists.counts, dict.fromkeys(range(3), ()))) == [0, 1]
    shards.take(view(1, 1))  # the director that is reached again may be behind, too
    assert len(shards.fan_out.replicas) == 3
    shards.take(view(1, 1, 1, moving_from=2))
    assert sorted(shards.fan_out.ask(ShardLists.counts, dict.fromkeys(range(3), ()))) == [0, 1, 2]
    assert shards.placement() == Placement(3, moving_from=2)
    shards.take(view(1, 1, 1))
    assert shards.placement() == Placement(3)


def test_a_job_is_heard_of_in_the_same_way() -> None:
    shards = KnownShards(5.0, lambda shard, number: Reached(shard, number, placed_among=2))
    shards.take(view(1))
    assert shards.fan_out.ask_every(ShardLists.job, {0: ()}) == {0: []}
    assert len(shards.fan_out.replicas) == 2
