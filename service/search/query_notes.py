"""Notes beside an answer, on a question that models cannot read as it was meant, or of which they read a part."""

from collections.abc import Collection

from index.catalog.text_search import is_date
from models.text.request_words import subject_of
from service.search.languages import language_of
from service.search.negations import negation_in
from service.search.times import times_in

MOST_AT_ONCE = 100  # pictures that a view lacks for a moment while the worker takes in more
WITHIN_A_MOMENT = 10  # pictures that the worker takes in within a moment or two
HOW_TO_SEARCH_BY_DATE = "choose from and to which date, among the options."


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
        if not in_texts:
            notes.append(
                f"This looks like {language}. Models read English alone: ask in English, or search texts alone."
            )
    elif (word := negation_in(subject)) is not None:
        notes.append(f"“{word}” is hardly understood: what it rules out may be among the pictures.")
    if (time := _time_note(subject, in_texts)) is not None:
        notes.append(time)
    if num_missing > WITHIN_A_MOMENT:
        notes.append(f"{num_missing} pictures that are stored cannot be found yet.")
    return " ".join(notes) or None


def _time_note(subject: str, in_texts: bool) -> str | None:
    """Of a time that is looked for in no date. Of several one that is a time for sure is told."""
    times = sorted(times_in(subject), key=lambda time: not time.is_period)
    if not times:
        return None
    written = subject[times[0].begin : times[0].end]
    if times[0].is_period:
        # "this" is a stop word, so that texts hold "this summer" where they hold "summer".
        if in_texts and not written.lower().startswith("this "):
            return None
        return f"“{written}” is not read as a time: {HOW_TO_SEARCH_BY_DATE}"
    if in_texts or is_date(subject):
        return None
    return f"“{written}” is not read as a time; if it is one, {HOW_TO_SEARCH_BY_DATE}"
