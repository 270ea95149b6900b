"""Arguments of requests, as types."""

from typing import Literal, TypedDict

from regard_client.answers import PictureFilter

Sort = Literal["arrival", "latest", "date"]


class SearchOptions(TypedDict, total=False):
    """Options of every search; the server chooses those that are omitted or None."""

    k: int | None
    shortlist: int | None
    model: str | None
    explain: bool | None
    min_score: float | None
    min_probability: float | None
    group_near_duplicates: bool | None
    filter: PictureFilter | None
    sort: Literal["relevance", "date"] | None
    partial: bool | None


class SimilarSearchOptions(SearchOptions, total=False):
    """Options of a search for pictures like a picture; `query` says in words what they should also show."""

    query: str | None


class TextSearchOptions(SearchOptions, total=False):
    """Options of a search with a sentence."""

    match: Literal["pictures", "text", "both"] | None
