"""Dates as people write them: "2024" is a year, "2024-05" a month, "2024-05-01" a day, and RFC 3339 a moment.

A year, month or day is one of UTC, as is the time of a camera that names no zone. Lengths of time are put into words.
"""

import calendar
import math
import re
from datetime import UTC, datetime

from service.units import SECONDS_A_DAY

RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
NUMBERS_YEAR_FIRST = re.compile(r"(\d{4})[./-](\d{1,2})(?:[./-](\d{1,2}))?", re.ASCII)
NUMBERS_YEAR_LAST = re.compile(r"(?:(\d{1,2})[./-])?(\d{1,2})[./-](\d{4})", re.ASCII)
CALENDAR = re.compile(r"(\d{4})(?:-(\d\d)(?:-(\d\d))?)?", re.ASCII)
# The first and last second of the years 1 to 9999 in UTC. A time with an offset may lie outside, in a year that no date
# in an answer can name: it counts as the nearest of these.
FIRST, LAST = -62_135_596_800.0, 253_402_300_799.0
EXPECTED = (
    "must be a year, month or day (2024, 2024-05, 2024-05-06), or a date and time with its timezone as in RFC 3339,"
    " such as 2024-05-06T07:08:09+02:00"
)


def unix_seconds(text: str) -> float:
    """Unix seconds of a moment, or of the beginning of a year, month or day. ValueError for anything else."""
    return date_span(text)[0]


def date_span(text: str) -> tuple[float, float]:
    """The first and last unix seconds of what is written, both included; they are the same for a moment.

    ValueError, in words, for what is no date.
    """
    if written := CALENDAR.fullmatch(text):
        year, month, day = (None if part is None else int(part) for part in written.groups())
        assert year is not None
        first = datetime(year, 1 if month is None else month, 1 if day is None else day, tzinfo=UTC).timestamp()
        of_month = 365 + calendar.isleap(year) if month is None else calendar.monthrange(year, month)[1]
        num_days = of_month if day is None else 1
        return first, math.nextafter(first + num_days * SECONDS_A_DAY, first)
    if not RFC_3339.fullmatch(text):
        raise ValueError(EXPECTED)
    moment = within_years(datetime.fromisoformat(text.upper()).timestamp())
    return moment, moment


def within_years(seconds: float) -> float:
    """The nearest moment of the years 1 to 9999 in UTC."""
    return min(max(seconds, FIRST), LAST)


def from_numbers(text: str) -> str:
    """A month or day in other orders and with other signs, such as 05.07.2023, as 2023-07-05; else the text itself.

    The day comes before the month, unless it cannot.
    """
    if written := NUMBERS_YEAR_FIRST.fullmatch(text):
        parts = list(written.groups())
    elif written := NUMBERS_YEAR_LAST.fullmatch(text):
        day, month, year = written.groups()
        parts = [year, day, month] if day is not None and int(month) > 12 else [year, month, day]
    else:
        return text
    return "-".join(part.zfill(2) for part in parts if part is not None)


def check_date(text: str) -> str:
    """The text; ValueError, in words, for what is no date."""
    date_span(text)
    return text


def duration(seconds: float) -> str:
    """Seconds in words: seconds below two minutes, minutes below two hours, then hours."""
    for size, name in ((3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    whole = max(1, round(seconds))
    return f"{whole} seconds" if whole > 1 else "1 second"
