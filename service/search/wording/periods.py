"""Periods that times in a question stand for, written as in filters: until 2020-04 for "before May 2020"."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from index.catalog.text.foreign_dates import ENGLISH
from index.catalog.text_index import MONTHS, plain_letters
from service.dates import check_date, date_span
from service.search.wording.times import times_in, visible_part

_MONTHS = {spelling: f"{n:02}" for n, name in enumerate(MONTHS, 1) for spelling in (name, name[:3], name[:4])}
_MONTHS |= {foreign: _MONTHS[name] for foreign, name in ENGLISH.items() if name in MONTHS}
_RANGE = re.compile(r"(?:between\s+\d{4}\s+and|(?:from\s+)?\d{4}\s*(?:-|–|to))\s*\d{4}", re.ASCII)
_RELATIVE = re.compile(r"(before|after|since|until|till|up\s+to)\s")
# Before a time: what may turn it round, in languages whose periods are not read, and what rules it out.
_TURNED_ROUND = re.compile(
    r"\b(?:vor|nach|seit|bis|ab|zwischen|und|avant|apres|depuis|jusqu\w*|entre|et|antes|despues|desde|hasta|y|prima|dopo"
    r"|da|dal|fino|tra|fra|e|a|de|del|en|or|not|no|never|without|except|outside|than|years?|months?|weeks?|days?"
    r"|[\d\"“])\W*$"
)
_GOES_ON = re.compile(r"\W*(?:(?:and|or|und|et|y|e)\s+(?:\d|later|earlier|before|after)|on\b|onwards?\b|to\b)")
_PART_OF_A_YEAR = re.compile("early|late|mid|christmas|easter|spring|summer|autumn|fall|winter")


@dataclass(frozen=True)
class Suggestion:
    """A question without its time, and the period to filter by: `gte`, `lte` or both."""

    query: str
    taken_at: Mapping[str, str]


def suggestion_for(subject: str) -> Suggestion | None:
    """The suggestion for a question with one period beside other words."""
    times, rest = times_in(subject), visible_part(subject)
    if len(times) != 1 or times_in(rest):
        return None
    if _TURNED_ROUND.search(plain_letters(subject[: times[0].begin])) or _GOES_ON.match(subject[times[0].end :]):
        return None
    period = _period_of(plain_letters(subject[times[0].begin : times[0].end]))
    return None if period is None else Suggestion(rest, period)


def _period_of(time: str) -> dict[str, str] | None:
    """The period of a time in plain letters; None for "last summer". "Summer 2023" stands for the year."""
    if _RANGE.fullmatch(time):
        first, last = sorted(re.findall(r"\d+", time))
        return {"gte": first, "lte": last}
    relation, date = _RELATIVE.match(time), _date_in(time)
    if date is None or (relation and _PART_OF_A_YEAR.search(time)):
        return None
    begin, end = date_span(date)
    periods = {
        "": {"gte": date, "lte": date},
        "since": {"gte": date},
        "after": {"gte": _around(end + 1, date)},
        "before": {"lte": _around(begin - 1, date)},
    }
    return periods.get(relation[1] if relation else "", {"lte": date})


def _around(seconds: float, date: str) -> str:
    """The year, month or day, as `date` is, that holds the unix seconds."""
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()[: len(date)]


def _date_in(text: str) -> str | None:
    """The year, month or day in a text; None for none, and for one that may be two, such as 5/6/2023."""
    numbers = re.findall(r"\d+", text)
    if numbers and len(numbers[0]) < len("2024"):  # the year comes last
        numbers.reverse()
        if len(numbers) == 3 and int(numbers[1]) > 12:
            numbers[1:] = reversed(numbers[1:])
        elif len(numbers) == 3 and "." not in text and int(numbers[2]) <= 12:
            return None
    numbers[1:1] = [_MONTHS[word] for word in re.findall(r"[^\W\d_]+", text) if word in _MONTHS]
    try:
        return check_date("-".join(number.zfill(2) for number in numbers))
    except ValueError:
        return None
