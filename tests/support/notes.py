"""The note beside an answer to a question, which is parsed first."""

from typing import Any

from service.search.wording.parsed_query import parse_query
from service.search.wording.query_notes import note_on


def note_for(question: str, *about: Any, **named: Any) -> str | None:
    """The note on a question as it was written; the rest is as of `note_on`."""
    return note_on(parse_query(question), *about, **named)
