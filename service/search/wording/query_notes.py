"""Notes beside an answer about a question that models misread, or of which they read only a part."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from index.catalog.text.named_tags import Tag
from index.catalog.text.search import is_date
from service.search.wording.file_names import is_file_name
from service.search.wording.languages import language_of
from service.search.wording.negations import negation_in
from service.search.wording.parsed_query import ParsedQuery
from service.search.wording.times import times_in

MOST_AT_ONCE = 100  # pictures that a view lacks for a moment while the worker takes in more
MOST_TAGS = 2  # offered as filters
WITHIN_A_MOMENT = 10  # pictures that the worker takes in within a moment or two
HOW_TO_SEARCH_BY_DATE = "filter by date instead."


class FoundCounts(NamedTuple):
    """The number of pictures in an answer, and of those whose text or date holds all words of the question; None where
    texts were not searched."""

    all: int
    by_text: int | None = None


def note_on(
    query: ParsedQuery,
    num_missing: int = 0,
    no_english: Collection[str] = (),
    found: FoundCounts | None = None,
    tags: Sequence[Tag] = (),
    filters_dates: bool = False,
) -> str | None:
    """Sentences for people about what may surprise them in an answer; None where there is nothing to say.

    They say which part of the question models read, if not all; what models do not understand; that a time is not read
    as a date; which tags to filter by; and how many pictures cannot be found yet, if these are many or nothing was
    found. `no_english` are the question's words that models do not know as they are written, `tags` those that it
    names; `found` is None where nothing was searched; `filters_dates` if the request has a filter of dates already.
    """
    notes, in_texts = [], found is not None and bool(found.by_text)
    subject, translation = query.subject, query.translation
    if subject != query.text and subject in query.text:  # a subject in other letters was not cut out
        notes.append(f"Searched for “{subject}”.")
    if translation is not None:
        notes.append(f"Read as “{translation.english}”, word by word: models read English alone.")
        language = None
    elif (language := language_of(subject, no_english)) is not None and not in_texts:
        notes.append(f"This looks like {language}. Models read English alone: ask in English, or search texts alone.")
    if query.excluded:
        things = _quoted(query.excluded)
        if found is not None:
            notes.append(f"Pictures that show {things} come later.")
        else:
            notes.append(f"{things} is left out." if query.wanted else f"Only {things} is ruled out: all is explained.")
    elif translation is None and language is None and (word := negation_in(subject)) is not None:
        notes.append(f"“{word}” is hardly understood: what it rules out may be among the pictures.")
    if is_file_name(subject):
        if found is not None and found.by_text == 0:
            notes.append(f"No picture's name or other text says “{subject}”.")
    elif (time := _time_note(subject, found, filters_dates)) is not None:
        notes.append(time)
    if tags:
        named = " and ".join(f"“{name}: {value}”" for name, value in tags[:MOST_TAGS])
        notes.append(f"There are pictures with {named}: filter by that to look at these alone.")
    if num_missing > (0 if found is not None and found.all == 0 else WITHIN_A_MOMENT):
        waiting = "1 picture that is" if num_missing == 1 else f"{num_missing} pictures that are"
        notes.append(f"{waiting} stored cannot be found yet.")
    return " ".join(notes) or None


def _quoted(things: Sequence[str]) -> str:
    """Things in quotation marks, as a list for people."""
    *others, last = (f"“{thing}”" for thing in things)
    return f"{', '.join(others)} or {last}" if others else last


def _time_note(subject: str, found: FoundCounts | None, filters_dates: bool) -> str | None:
    """The note on a time in the question, which only texts and dates are searched for; of several, on one that surely
    is a time."""
    by_text = None if found is None else found.by_text
    times = sorted(times_in(subject), key=lambda time: not time.is_period)
    is_period = bool(times) and times[0].is_period
    if not is_period and (times or by_text is not None) and is_date(subject):
        return f"No picture's date or text says “{subject}”." if by_text == 0 else _note_on_others(found)
    if not times:
        return None
    written = subject[times[0].begin : times[0].end]
    # "this" is a stop word, so that texts hold "this summer" where they hold "summer".
    if by_text and not (is_period and written.lower().startswith("this ")):
        return _note_on_others(found)
    if filters_dates:
        return f"“{written}” is not read as a time."
    reason = ":" if is_period else "; if it is one,"
    return f"“{written}” is not read as a time{reason} {HOW_TO_SEARCH_BY_DATE}"


def _note_on_others(found: FoundCounts | None) -> str | None:
    """The note that only some of the pictures found have all words of the question in their date or text."""
    if found is None or not found.by_text or found.by_text >= found.all:
        return None
    some = "1 picture" if found.by_text == 1 else f"{found.by_text} pictures"
    return f"Date and text of {some} hold all words; the others were found by what they show."
