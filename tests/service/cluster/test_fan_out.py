"""Who is asked, and when a second request is due: not before most calls have ended, and by what calls took of late."""

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.cluster.routing.fan_out import (
    FEWEST_TIMES,
    FIRST_HEDGE_S,
    REMEMBERED,
    REST_S,
    CallTimes,
    FanOut,
    every_shard,
)
from service.cluster.shards.lists import ShardLists
from service.cluster.shards.search import ShardSearch
from service.errors import InvalidRequest, NotReady

SECONDS = st.floats(0, 100)
FOUND: dict[int, Any] = {0: "found"}  # what stand-ins answer, whatever is asked


@given(st.lists(SECONDS, min_size=FEWEST_TIMES, max_size=2 * REMEMBERED))
def test_a_second_request_is_due_when_95_of_100_calls_have_ended(seconds: list[float]) -> None:
    times = CallTimes()
    for one in seconds:
        times.add("shortlist", one)
    lately, due = seconds[-REMEMBERED:], times.hedge_after("shortlist")
    assert sum(one <= due for one in lately) >= 0.95 * len(lately)
    assert sum(one < due for one in lately) <= 0.95 * len(lately)


@given(st.lists(SECONDS, max_size=FEWEST_TIMES - 1))
def test_few_calls_say_nothing(seconds: list[float]) -> None:
    times = CallTimes()
    for one in seconds:
        times.add("shortlist", one)
    times.add("text_matches", 1.0)  # of another kind
    assert times.hedge_after("shortlist") == FIRST_HEDGE_S


class Clock:
    """A clock that goes on by a thousandth of a second with every look at it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


class Called:
    """A replica whose calls end, or do not, as `answer` says."""

    def __init__(self, name: str, answer: "Callable[[Future[Any]], None]") -> None:
        self.name, self.calls, self._answer = name, 0, answer

    def call(self, method: str, *arguments: Any) -> "Future[Any]":
        self.calls += 1
        future: Future[Any] = Future()
        self._answer(future)
        return future


def test_a_replica_that_failed_is_asked_last_for_a_while() -> None:
    clock = Clock()
    failing = Called("failing", lambda future: future.set_exception(ConnectionError("gone")))
    sound = Called("sound", lambda future: future.set_result("found"))
    fan_out = FanOut([[failing, sound]], 30.0, clock)
    for _ in range(4):
        assert fan_out.ask(ShardSearch.shortlist, {0: ()}) == FOUND
    assert (failing.calls, sound.calls) == (1, 4)
    clock.now += REST_S
    for _ in range(2):
        assert fan_out.ask(ShardSearch.shortlist, {0: ()}) == FOUND
    assert (failing.calls, sound.calls) == (2, 6)


def test_a_replica_in_trouble_of_its_own_is_followed_by_its_sibling() -> None:
    reading = Called("reading", lambda future: future.set_exception(NotReady("its disk is away")))
    sound = Called("sound", lambda future: future.set_result("found"))
    for replicas in ([reading, sound], [sound, reading]):
        fan_out = FanOut([replicas], 30.0, Clock())
        assert [fan_out.ask(ShardSearch.features, {0: ()}) for _ in range(4)] == [FOUND] * 4
    assert reading.calls == 4
    other = Called("other", lambda future: future.set_exception(NotReady("that disk is away, too")))
    with pytest.raises(NotReady, match="away"):
        FanOut([[reading, other]], 30.0, Clock()).ask(ShardSearch.features, {0: ()})
    assert other.calls == 1


@pytest.mark.parametrize("told_first", [True, False])
def test_the_reason_of_one_replica_is_told_whenever_its_sibling_is_gone(told_first: bool) -> None:
    reading = Called("reading", lambda future: future.set_exception(NotReady("its disk is away")))
    gone = Called("gone", lambda future: future.set_exception(ConnectionError("gone")))
    with pytest.raises(NotReady, match="away"):
        FanOut([[reading, gone] if told_first else [gone, reading]], 30.0, Clock()).ask(ShardSearch.features, {0: ()})
    assert (reading.calls, gone.calls) == (1, 1)


def test_a_request_that_is_wrong_is_asked_of_nobody_else() -> None:
    refusing = Called("refusing", lambda future: future.set_exception(InvalidRequest("k: is too large")))
    sibling = Called("sibling", lambda future: future.set_result("found"))
    with pytest.raises(InvalidRequest):
        FanOut([[refusing, sibling]], 30.0, Clock()).ask(ShardSearch.shortlist, {0: ()})
    assert sibling.calls == 0


def test_a_call_has_the_deadline_that_it_names() -> None:
    clock = Clock()

    def take_long(future: "Future[Any]") -> None:
        clock.now += 5.0
        future.set_result("found")

    fan_out = FanOut([[Called("slow", take_long)]], 2.0, clock)
    assert fan_out.ask(ShardSearch.shortlist, {0: ()}) == {}
    assert fan_out.ask(ShardLists.page, {0: ()}, deadline_s=15.0) == FOUND


def test_a_second_request_goes_to_the_sibling_once_it_is_due() -> None:
    clock = Clock()

    def take_long(future: "Future[Any]") -> None:
        clock.now += FIRST_HEDGE_S

    slow, sibling = Called("slow", take_long), Called("sibling", lambda future: future.set_result("found"))
    chosen: dict[int, str] = {}
    fan_out = FanOut([[slow, sibling]], 1.8 * FIRST_HEDGE_S, clock)
    assert fan_out.ask(ShardSearch.shortlist, {0: ()}, chosen) == FOUND
    assert (slow.calls, sibling.calls, chosen) == (1, 1, {0: "sibling"})


def test_answers_of_all_shards_are_in_their_order_whichever_comes_first() -> None:
    broken = Called("broken", lambda future: future.set_exception(ConnectionError("it is gone")))
    late, early = (Called(name, partial(Future.set_result, result=name)) for name in ("late", "early"))
    answers: list[Any] = list(every_shard(FanOut([[broken, late], [early]], 30.0), 2, ShardLists.counts))
    assert answers == ["late", "early"]
    assert broken.calls == 1
