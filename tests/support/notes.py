"""The note beside an answer to a question, which is parsed first."""

from collections.abc import Collection, Sequence

from index.catalog.text.named_tags import Tag
from service.search.wording.parsed_query import parse_query
from service.search.wording.query_notes import FoundCounts, note_on


def note_for(
    question: str,
    num_missing: int = 0,
    no_english: Collection[str] = (),
    found: FoundCounts | None = None,
    tags: Sequence[Tag] = (),
    filters_dates: bool = False,
) -> str | None:
    """The note on a question as it was written."""
    return note_on(parse_query(question), num_missing, no_english, found, tags, filters_dates)
