"""Results of searches. Attributes are named as in HTTP answers, which are built from them as they are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from index.records import Caption, Image
from service.storage.region_records import Region

AnyRanked = TypeVar("AnyRanked", "RankedPicture", "RankedCaption")


def picture_url(image: Image) -> str | None:
    """Path of a picture's bytes; None when features alone were taken in."""
    return f"/images/{image.image_id}" if image.pictured else None


def thumbnail_url(image: Image) -> str | None:
    """Path of a picture's thumbnail; None when features alone were taken in."""
    return f"/images/{image.image_id}/thumbnail" if image.pictured else None


@dataclass(frozen=True)
class ScoredWord:
    """One word as the model scored it; special ones, such as <start>, were not in the sentence."""

    text: str
    special: bool


@dataclass(frozen=True)
class PairExplanation:
    """Why one picture and one sentence scored what they did; None where the model has no exact answer.

    `attention` and `shares` are of each word (first) with each region.
    """

    kind: str
    words: Sequence[ScoredWord]
    regions: Sequence[Region]
    contributions: Sequence[float] | None = None
    attention: Sequence[Sequence[float]] | None = None
    shares: Sequence[Sequence[float]] | None = None
    word_weights: Sequence[float] | None = None
    region_weights: Sequence[float] | None = None


@dataclass(frozen=True, kw_only=True)
class RankedPicture(Image):
    """A picture that answers: the catalog's record of it with its scores. Ranks count from 1."""

    score: float
    shortlist_rank: int
    rank: int = 0
    probability: float | None = None
    explanation: PairExplanation | None = None

    @property
    def url(self) -> str | None:
        """Path of the picture's bytes."""
        return picture_url(self)

    @property
    def thumbnail_url(self) -> str | None:
        """Path of the picture's thumbnail."""
        return thumbnail_url(self)


@dataclass(frozen=True, kw_only=True)
class RankedCaption(Caption):
    """A caption that answers: the catalog's record of it with its scores. Ranks count from 1."""

    score: float
    shortlist_rank: int
    rank: int = 0
    probability: float | None = None
    explanation: PairExplanation | None = None


@dataclass(frozen=True, kw_only=True)
class SearchResult(Generic[AnyRanked]):
    """Hits, best first (or as the request sorts them), and what they came from.

    `left_out` counts the candidates below `min_score` or `min_probability`; `timings_ms` has a stage's milliseconds.
    """

    model: str
    model_digest: str
    k: int
    shortlist: int
    index_version: str
    cached: bool = False
    left_out: int = 0
    results: Sequence[AnyRanked] = ()
    timings_ms: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class TextSearchResult(SearchResult[RankedPicture]):
    """Pictures for a sentence."""

    query: str
    unknown_words: Sequence[str] = ()
    read_as: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ImageSearchResult(SearchResult[AnyRanked]):
    """Captions for a picture, or pictures like it; `note` says why there is nothing to be found, where that is so."""

    target: Literal["captions", "images"]
    note: str | None = None
