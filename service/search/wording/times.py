"""Times that a question names beside what pictures show: "2023" of "a dog in the snow, 2023".

No picture shows when it was taken, and models read captions that hardly ever name a time, so that a year beside other
words finds less. Texts of pictures do hold times.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from index.catalog.text.foreign_dates import FOREIGN_MONTHS
from index.catalog.text.search import ENGLISH_STOP_WORDS, MONTH_NAMES, PLAIN_MONTHS, STOP_WORDS, is_date, query_terms
from index.catalog.text_index import NUMERIC_DATE, WEEKDAYS, YEAR_FIRST
from service.search.wording.foreign_words import FUNCTION_WORDS

_FUNCTION_WORDS = ENGLISH_STOP_WORDS.union(FUNCTION_WORDS["English"].split())
_NO_NOUN = rf"(?!\s+(?!(?:{'|'.join(sorted(_FUNCTION_WORDS))})\b)\w)"  # follows, as in "1900 style", "1920 x 1080"
_ANY_YEAR = r"(?:19|20)\d\d\b(?![.\-/’']\w)"  # and not the rest of a date
_YEAR = rf"{_ANY_YEAR}{_NO_NOUN}"
_SEASON = r"(?:spring|summer|autumn|fall|winter)"
_MONTHS = {*MONTH_NAMES, "sept", *FOREIGN_MONTHS} - {"mars"}  # which pictures show
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
# Times that are no date of a picture's, so that no text holds them.
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
# Times, perhaps: "dogs in 2021", "dogs, 2021", "2021 dogs".
_MOMENT = "|".join(
    (
        rf"{_ON}{_DATE}",
        rf"\b(?:in|from|during|dated|the(?=\s+year\b))\s+{_PART}{_YEAR}",
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
# Parts of a time that pictures do show.
_VISIBLE = re.compile(rf"\b(?:{_SEASON}|christmas|easter|evening|night)\b", re.IGNORECASE)
# A full stop that stands apart is one of the captions that models have learnt from, that of "D.C." of its word.
_END = re.compile(r"(?:\s*[?!][?!.\s]*|(?<=\w\w)\.+)$")
_EMPTY = re.compile(r"[(\[]\s*[)\]]|(?<=,)\s*,|\s+(?=[,.?!])")


class Time(NamedTuple):
    """A time in a question, from one character to another; a period is a time for sure, a moment perhaps."""

    begin: int
    end: int
    is_period: bool


def times_in(subject: str) -> list[Time]:
    """The times in a question's subject, in their order."""
    found = _TIME.finditer(subject)
    return [Time(*one.span(), one["period"] is not None) for one in found if not _is_numbered(one, subject)]


@lru_cache(256)
def visible_part(subject: str) -> str:
    """The subject without its times, but for what pictures show of them, and without marks at its end: "children at
    christmas" of "children at christmas 2021?". All of it where nothing is left that is looked for."""
    said = _END.sub("", subject) if re.search(r"\w", subject) else subject
    if is_date(said) or not (times := times_in(said)):
        return said
    rest, end = "", 0
    for time in times:
        rest += said[end : time.begin] + " ".join(_VISIBLE.findall(said[time.begin : time.end]))
        end = time.end
    rest = " ".join(_EMPTY.sub("", rest + said[end:]).split()).strip(" ,;:-–")
    return rest if set(query_terms(rest)) - STOP_WORDS else said


def _is_numbered(found: re.Match[str], subject: str) -> bool:
    """Whether a number, or a month, that stands by itself belongs to the word before it."""
    before = re.findall(r"\w+", subject[: found.start()])
    return found["bare"] is not None and (before[-1].lower() in _NUMBERED or before[-1].isdecimal())
