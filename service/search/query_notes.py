"""Notes beside an answer, on a question that models cannot read as it was meant, or of which they read a part."""

import re
from collections.abc import Collection

from index.catalog.text_search import is_date
from models.text.request_words import subject_of
from service.search.languages import language_of
from service.search.negations import negation_in

MOST_AT_ONCE = 100  # pictures that a view lacks for a moment while the worker takes in more
WITHIN_A_MOMENT = 10  # pictures that the worker takes in within a moment or two

_YEAR, _SEASON = r"(?:19|20)\d\d", r"(?:spring|summer|autumn|fall|winter)"
# Times that are no date of a picture's, so that no text holds them.
_PERIOD = re.compile(
    "|".join(
        (
            rf"\b(?:before|after|since|until|till|up\s+to)\s+(?:\w+\s+)?{_YEAR}\b",
            rf"\b(?:between\s+)?{_YEAR}\s*(?:-|–|to|and)\s*{_YEAR}\b",
            rf"\b{_SEASON}\s+(?:of\s+)?{_YEAR}\b",
            rf"\b(?:last|this)\s+(?:{_SEASON}|year|month|week|christmas|easter|night|weekend)\b",
            r"\bthis\s+(?:morning|afternoon|evening)\b",
            r"\b(?:today|yesterday|\w+\s+(?:days?|weeks?|months?|years?)\s+ago)\b",
        )
    ),
    re.IGNORECASE,
)
# Beside what a picture shows: "snow 2021", "dogs in 2021", and no "1920 x 1080" or "a 1965 car".
_ONE_YEAR = re.compile(rf"(?<=\s){_YEAR}(?=[?!.]*\s*$)|\b(?:in|from|during)\s+{_YEAR}\b(?![.\-/]\d)", re.IGNORECASE)


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
    # "this" is a small word, so that texts hold "this summer" where they hold "summer".
    if (period := _time_in(subject)) is not None and (not in_texts or period.lower().startswith("this ")):
        notes.append(f"“{period}” is not read as a time: say from and to which date, in the filter.")
    if num_missing > WITHIN_A_MOMENT:
        notes.append(f"{num_missing} pictures that are stored cannot be found yet.")
    return " ".join(notes) or None


def _time_in(subject: str) -> str | None:
    """A time that something is asked of, such as "last summer", or the year in "a dog in the snow 2021"."""
    if (period := _PERIOD.search(subject)) is not None:
        return period.group()
    year = _ONE_YEAR.search(subject)
    return None if year is None or is_date(subject) else year.group()
