"""Times that a question names beside what pictures show: "2023" of "a dog in the snow, 2023".

No picture shows when it was taken, and the captions that models learn from hardly ever name a time, so a year beside
other words makes a search worse. Texts of pictures do hold times.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from index.catalog.text.foreign_dates import FOREIGN_MONTHS
from index.catalog.text.search import ENGLISH_STOP_WORDS, MONTH_NAMES, PLAIN_MONTHS, STOP_WORDS, is_date, query_terms
from index.catalog.text_index import NUMERIC_DATE, WEEKDAYS, YEAR_FIRST
from service.search.wording.foreign_words import FUNCTION_WORDS

_FUNCTION_WORDS = ENGLISH_STOP_WORDS.union(FUNCTION_WORDS["English"].split())
_NO_NOUN = (
    rf"(?!\s+(?!(?:{'|'.join(sorted(_FUNCTION_WORDS))})\b)\w)"  # no noun may follow, as in "1900 style", "1920 x 1080"
)
_ANY_YEAR = r"(?:19|20)\d\d\b(?![.\-/’']\w)"  # which is not the rest of a date
_YEAR = rf"{_ANY_YEAR}{_NO_NOUN}"
_SEASON = r"(?:spring|summer|autumn|fall|winter)"
_MONTHS = {*MONTH_NAMES, "sept", *FOREIGN_MONTHS} - {"mars"}  # Mars: pictures show it
_MONTH = rf"\b(?:{'|'.join(sorted(_MONTHS, key=len, reverse=True))})"
_PLAIN_MONTH = rf"(?:{'|'.join(PLAIN_MONTHS)})\b"
_DAY = r"\b(?:0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th|\.)?(?!\d)"
_HOLIDAY = r"(?!4(?:th)?\s+(?:of\s+)?july\b|july\s+4(?:th)?\b)"
_DAY_OF = rf"(?:{_DAY}\s+(?:(?:of|de)\s+)?{_MONTH}|{_MONTH}\.?\s+{_DAY})"
_DAY_OF_PLAIN = rf"{_HOLIDAY}(?:{_DAY}\s+(?:of\s+)?{_PLAIN_MONTH}|{_PLAIN_MONTH}\s+{_DAY}){_NO_NOUN}"
_IN_NUMBERS = "|".join(
    (
        NUMERIC_DATE.pattern,
        YEAR_FIRST.pattern,
        r"\b(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\b",
        r"(?<![\w./-])\d\d?(?:\.\d\d?\.|/\d\d?/)\d\d(?![\w/-]|\.\d)",
    )
)
_PART = (
    rf"(?:(?:(?:the\s+)?year|early|late|mid|christmas|easter|(?:the\s+)?{_SEASON}(?:\s+of)?|{_MONTH}\.?(?:\s+of)?)"
    r"\s+)?"
)
_ON = rf"(?:\b(?:taken\s+)?(?:on|in|from|of|during|dated)\s+)?(?:\b(?:{'|'.join(WEEKDAYS)}),?\s+)?(?:\bthe\s+)?"
_DATE = rf"(?:{_IN_NUMBERS}|{_DAY_OF}(?:,|\s+del?)?\s+{_ANY_YEAR}|{_DAY_OF_PLAIN})"
# Periods and relative times: no text of a picture holds them, since they are no date of one picture.
_PERIOD = "|".join(
    (
        rf"\b(?:before|after|since|until|till|up\s+to)\s+(?:{_DATE}|{_PART}{_YEAR}|{_PLAIN_MONTH}{_NO_NOUN})",
        rf"\b(?:(?:between|from)\s+)?(?:19|20)\d\d\s*(?:-|–|to|and)\s*{_YEAR}",
        rf"\b{_SEASON}\s+(?:of\s+)?{_YEAR}",
        rf"\b(?:last|this)\s+(?:(?:{_SEASON}|year|month|week|christmas|easter|night|weekend)\b|{_PLAIN_MONTH})",
        r"\bthis\s+(?:morning|afternoon|evening)\b",
        r"\b(?:today|yesterday|\w+\s+(?:days?|weeks?|months?|years?)\s+ago)\b",
    )
)
# What is probably a time: "dogs in 2021", "dogs, 2021", "2021 dogs".
_MOMENT = "|".join(
    (
        rf"{_ON}{_DATE}",
        rf"\b(?:in|from|during|dated|im|vom|von|en|nel|the(?=\s+year\b))\s+{_PART}{_YEAR}",
        rf"\b(?:in|during)\s+(?:(?:early|late|mid)\s+)?(?:{_PLAIN_MONTH}|(?:march|may)\b){_NO_NOUN}",
        rf"{_MONTH}(?:\.?,?|\s+(?:of|del?))\s+{_ANY_YEAR}",
        rf"(?:(?<=,)|(?<=,\s)|(?<=\())(?:{_YEAR}|{_PLAIN_MONTH}{_NO_NOUN})",
        r"^20[0-3]\d(?=\s+[^\W\d])",
    )
)
_BARE = rf"(?<=\w\s)(?:{_YEAR}|{_PLAIN_MONTH}\s*$)"
_TIME = re.compile(f"(?P<period>{_PERIOD})|(?P<moment>{_MOMENT})|(?P<bare>{_BARE})", re.IGNORECASE)
# Words after which a number is no year: "bus number 2021", "a sign that says 1984".
_NUMBERED = _FUNCTION_WORDS.union(
    ("number", "numbers", "no", "nr", "room", "bus", "train", "tram", "route", "flight", "gate", "page"),
    ("says", "saying", "reads", "x"),
)
# The parts of a time that pictures can show.
_VISIBLE = re.compile(rf"\b(?:{_SEASON}|christmas|easter|evening|night)\b", re.IGNORECASE)
# A full stop set apart is kept, as in the captions that models learnt from; so is that of "D.C.".
_END = re.compile(r"(?:\s*[?!][?!.\s]*|(?<=\w\w)\.+)$")
_EMPTY = re.compile(r"[(\[]\s*[)\]]|(?<=,)\s*,|\s+(?=[,.?!])")


class Time(NamedTuple):
    """A time in a question, from character `begin` to `end`; a period surely is a time, anything else probably."""

    begin: int
    end: int
    is_period: bool


def times_in(subject: str) -> list[Time]:
    """The times in a question's subject, in their order."""
    matches = _TIME.finditer(subject)
    return [Time(*match.span(), match["period"] is not None) for match in matches if not _is_numbered(match, subject)]


@lru_cache(256)
def visible_part(subject: str) -> str:
    """The subject without its times, except for what pictures show of them, and without marks at its end: "children at
    christmas" of "children at christmas 2021?". The whole subject where nothing else is left to search for."""
    stripped = _END.sub("", subject) if re.search(r"\w", subject) else subject
    if is_date(stripped) or not (times := times_in(stripped)):
        return stripped
    rest, end = "", 0
    for time in times:
        rest += stripped[end : time.begin] + " ".join(_VISIBLE.findall(stripped[time.begin : time.end]))
        end = time.end
    rest = " ".join(_EMPTY.sub("", rest + stripped[end:]).split()).strip(" ,;:-–")
    return rest if set(query_terms(rest)) - STOP_WORDS else stripped


def _is_numbered(match: re.Match[str], subject: str) -> bool:
    """Whether a number, or a month, that stands by itself belongs to the word before it."""
    before = re.findall(r"\w+", subject[: match.start()])
    return match["bare"] is not None and (before[-1].lower() in _NUMBERED or before[-1].isdecimal())
