"""Notes beside an answer, on a question that models cannot read as it was meant, or of which they read a part."""

import re
from collections.abc import Collection

from index.catalog.text_search import MONTH_NAMES, STOP_WORDS, is_date
from models.text.request_words import subject_of
from service.search.foreign_words import FUNCTION_WORDS
from service.search.languages import language_of
from service.search.negations import negation_in

MOST_AT_ONCE = 100  # pictures that a view lacks for a moment while the worker takes in more
WITHIN_A_MOMENT = 10  # pictures that the worker takes in within a moment or two

_SEASON = r"(?:spring|summer|autumn|fall|winter)"
_MONTH = rf"(?:{'|'.join(sorted(MONTH_NAMES, key=len, reverse=True))})"
# A year that no noun follows, as in "1900 style" and "1920 x 1080", nor the rest of a date.
_GOES_ON = "|".join(sorted(STOP_WORDS.union(FUNCTION_WORDS["English"].split())))
_YEAR = rf"(?:19|20)\d\d\b(?![.\-/’']\w)(?!\s+(?!(?:{_GOES_ON})\b)\w)"
_DATE = r"(?:19|20)\d\d(?:[-./]\d\d?){1,2}\b"
_PART = rf"(?:(?:(?:the\s+)?year|early|late|mid|christmas|easter|(?:the\s+)?{_SEASON}(?:\s+of)?|{_MONTH}\.?)\s+)?"
# Times that are no date of a picture's, so that no text holds them.
_PERIOD = re.compile(
    "|".join(
        (
            rf"\b(?:before|after|since|until|till|up\s+to)\s+(?:{_PART}{_YEAR}|{_DATE})",
            rf"\b(?:between\s+)?(?:19|20)\d\d\s*(?:-|–|to|and)\s*{_YEAR}",
            rf"\b{_SEASON}\s+(?:of\s+)?{_YEAR}",
            rf"\b(?:last|this)\s+(?:{_SEASON}|year|month|week|christmas|easter|night|weekend)\b",
            r"\bthis\s+(?:morning|afternoon|evening)\b",
            r"\b(?:today|yesterday|\w+\s+(?:days?|weeks?|months?|years?)\s+ago)\b",
        )
    ),
    re.IGNORECASE,
)
# A time, perhaps, beside what a picture shows: "dogs in 2021", "dogs, 2021"; and no "ford mustang 1967".
_YEAR_BESIDE = re.compile(
    rf"\b(?:in|from|during)\s+{_PART}{_YEAR}|\b{_MONTH}\.?(?:\s+\d\d?)?,?\s+{_YEAR}|(?:(?<=,)|(?<=,\s)){_YEAR}",
    re.IGNORECASE,
)


def note_on(query: str, num_missing: int = 0, no_english: Collection[str] = (), in_texts: bool = False) -> str | None:
    """The part of a question that models read, parts that they do not understand, times that are no date, and how many
    pictures cannot be found yet, where these are more than come in at a time; in sentences for people. None where
    nothing stands out.

    `no_english` are its words that models do not know as they are written; `in_texts` says that texts of pictures hold
    all of its words, those of a time among them.
    """
    notes = []
    if (subject := subject_of(query)) != query and subject in query:  # and not the same in other letters
        notes.append(f"Searched for “{subject}”.")
    if (language := language_of(subject, no_english)) is not None:
        notes.append(f"This looks like {language}. Models read English alone: ask in English, or search texts alone.")
    elif (word := negation_in(subject)) is not None:
        notes.append(f"“{word}” is hardly understood: what it rules out may be among the pictures.")
    # "this" is a stop word, so that texts hold "this summer" where they hold "summer".
    if (period := _PERIOD.search(subject)) is not None:
        if not in_texts or period.group().lower().startswith("this "):
            notes.append(f"“{period.group()}” is not read as a time: say from and to which date, in the filter.")
    elif (year := _YEAR_BESIDE.search(subject)) is not None and not (in_texts or is_date(subject)):
        notes.append(
            f"“{year.group()}” is not read as a time; if it is one, say from and to which date, in the filter."
        )
    if num_missing > WITHIN_A_MOMENT:
        notes.append(f"{num_missing} pictures that are stored cannot be found yet.")
    return " ".join(notes) or None
