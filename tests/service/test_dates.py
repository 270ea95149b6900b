"""Dates as people write them."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.dates import date_span, unix_seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0.0),
        ("1970-01-01t00:00:00.250z", 0.25),
        ("1969-12-31 23:59:59-00:00", -1.0),
        ("2024-02-29T12:00:00+05:30", 1709188200.0),
    ],
)
def test_moments_of_rfc_3339(text: str, seconds: float) -> None:
    assert unix_seconds(text) == seconds


@pytest.mark.parametrize(
    ("text", "first", "after"),
    [
        ("2024", datetime(2024, 1, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)),
        ("2023", datetime(2023, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)),
        ("2024-02", datetime(2024, 2, 1, tzinfo=UTC), datetime(2024, 3, 1, tzinfo=UTC)),
        ("1969-12", datetime(1969, 12, 1, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC)),
        ("2024-12-31", datetime(2024, 12, 31, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_part_of_the_calendar_lasts_to_its_last_moment(text: str, first: datetime, after: datetime) -> None:
    begun, ended = date_span(text)
    assert begun == first.timestamp()
    assert ended < after.timestamp()
    assert after.timestamp() - ended < 1e-3


@given(st.datetimes(datetime(1000, 1, 1), datetime(9999, 12, 31)))
def test_a_moment_lies_in_its_year_month_and_day_and_in_no_other(naive: datetime) -> None:
    moment = naive.replace(tzinfo=UTC, microsecond=0)
    for form in ("%Y", "%Y-%m", "%Y-%m-%d"):
        first, last = date_span(moment.strftime(form))
        assert first <= moment.timestamp() <= last
        before = datetime.fromtimestamp(first, UTC) - timedelta(seconds=1)
        assert before.strftime(form) != moment.strftime(form)


@pytest.mark.parametrize(
    "text",
    [
        *("", "24", "20240", "2024-5", "2024-13", "2024-02-30", "0000", "2024-05-01T10:00:00", "May 2024", "20240501"),
        *("2024-00", "2024-00-05", "2024-05-00", "\uff12\uff10\uff12\uff14"),  # the last in digits of full width
    ],
)
def test_what_is_no_date_is_refused_in_words(text: str) -> None:
    with pytest.raises(ValueError, match=r"year|month|day"):
        date_span(text)
