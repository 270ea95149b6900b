"""When a second request is due: not before most calls have ended, and by what calls took of late."""

from hypothesis import given
from hypothesis import strategies as st

from service.cluster.fan_out import FEWEST_TIMES, FIRST_HEDGE_S, REMEMBERED, CallTimes

SECONDS = st.floats(0, 100)


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
