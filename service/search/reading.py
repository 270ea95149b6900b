"""The words of a query as the model reads them, with notes on them and a suggestion, for the answer to show."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from index.catalog.text.search import TextMatch
from service.search.query import OpenQuery
from service.search.requests import Period, PictureFilter, SearchRequest, TextSearchRequest
from service.search.results import RankedPicture, Reading
from service.search.wording.languages import language_of
from service.search.wording.periods import Suggestion, suggestion_for
from service.search.wording.query_notes import FoundCounts, note_on

NO_PROBABILITIES = "They have no probabilities, so a least probability leaves none out."


def reading_of_question(
    query: OpenQuery[TextSearchRequest], hits: Sequence[RankedPicture], matches: Sequence[TextMatch]
) -> Reading:
    """The reading of a question for pictures: its words as they are where only texts are searched."""
    request = query.request
    if not query.needs_model:
        return Reading(request.query, [], {})
    reading = reading_of(query, found_in(hits, matches, request))
    if request.min_probability is not None and not query.parsed.wanted:
        return replace(reading, note=f"{reading.note} {NO_PROBABILITIES}")
    return reading


def found_in(hits: Sequence[RankedPicture], matches: Sequence[TextMatch], request: TextSearchRequest) -> FoundCounts:
    """The numbers of pictures found, for notes. Pictures in `matches` need not be among the hits."""
    if request.match == "pictures":
        return FoundCounts(len(hits))
    return FoundCounts(len(hits), sum("text" in hit.found_by for hit in hits) or len(matches))


def reading_of(query: OpenQuery[Any], found: FoundCounts) -> Reading:
    """The query's words as the model reads them, with notes on them and on what was found."""
    parsed = query.parsed
    read = " ".join([parsed.wanted_or_all, *parsed.excluded])
    unknown = query.matcher.unknown_words(read)
    read_as = query.matcher.near_words(read)
    not_english = [*unknown, *read_as]
    may_name_tags = found.by_text == 0 and not query.request.filter
    tags = query.gallery.named_tags(parsed.subject_wanted) if may_name_tags else ()
    note = note_on(parsed, query.gallery.num_missing, not_english, found, tags, filters_dates(query.request))
    if found.by_text or language_of(read, not_english) is not None:
        read_as = {}  # its words come from a text or another language, and only resemble English ones
    if parsed.translation is not None:
        read_as = {**parsed.translation.words, **read_as}
    return Reading(parsed.text, unknown, read_as, note, suggestion_of(query))


def filters_dates(request: SearchRequest) -> bool:
    """Whether the request has a filter of dates."""
    return request.filter is not None and request.filter.taken_at is not None


def suggestion_of(query: OpenQuery[Any]) -> Suggestion | None:
    """The suggestion for the question; None if dates are filtered already, or no picture would pass."""
    given = query.request.filter or PictureFilter()
    suggestion = suggestion_for(query.parsed.subject)
    if suggestion is None or filters_dates(query.request):
        return None
    wanted = given.model_copy(update={"taken_at": Period.model_validate(suggestion.taken_at)})
    return suggestion if query.gallery.may_hold(wanted.compiled()) else None
