"""Results of searches, with attributes named as in the HTTP answers that are built from them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Literal, TypeAlias, TypeVar

from index.records import Caption, Image
from models.text.content_words import is_content_word
from service.search.wording.periods import Suggestion
from service.storage.regions.records import Region

T = TypeVar("T")
FoundBy: TypeAlias = Literal["pictures", "text"]
AnyRanked = TypeVar("AnyRanked", "RankedPicture", "RankedCaption")


def picture_url(image: Image) -> str | None:
    """Path of a picture's bytes; None where only features were taken in, or it is deleted."""
    return f"/images/{image.image_id}" if image.pictured and image.state != "deleted" else None


def thumbnail_url(image: Image) -> str | None:
    """Path of a picture's thumbnail; None where only features were taken in."""
    name = "deleted-thumbnail" if image.state == "deleted" else "thumbnail"
    return f"/images/{image.image_id}/{name}" if image.pictured else None


def newest_first(image: Image) -> tuple[bool, float, float]:
    """The key that sorts pictures with the newest first; undated ones come last, by when they were added."""
    return image.taken_at is None, -(image.taken_at or 0.0), -image.added_at


@dataclass(frozen=True)
class ScoredWord:
    """One word as the model scored it; special tokens, such as <start>, were not in the sentence.

    A picture that shows an `excluded` word loses by it.
    """

    text: str
    special: bool
    excluded: bool = False

    @property
    def content(self) -> bool:
        """Whether it is a content word: no function word, punctuation or mark."""
        return not self.special and is_content_word(self.text)


@dataclass(frozen=True)
class PairExplanation:
    """The explanation of one picture's score with one sentence; None where the model has no exact answer.

    `attention` and `shares` are [words][regions].
    """

    kind: str
    words: Sequence[ScoredWord]
    regions: Sequence[Region]
    contributions: Sequence[float] | None = None
    attention: Sequence[Sequence[float]] | None = None
    shares: Sequence[Sequence[float]] | None = None
    word_weights: Sequence[float] | None = None
    region_weights: Sequence[float] | None = None

    def counting_against(self, weight: float) -> "PairExplanation":
        """The explanation of this score times minus `weight`, as a part of another score."""

        def negative(values: Sequence[float] | None) -> Sequence[float] | None:
            return None if values is None else [-weight * value for value in values]

        return replace(
            self,
            words=[replace(word, excluded=True) for word in self.words],
            contributions=negative(self.contributions),
            shares=None if self.shares is None else [negative(row) or () for row in self.shares],
        )

    def joined_with(self, other: "PairExplanation") -> "PairExplanation":
        """The explanation of the sum of two scores of the same picture; the other's words follow. Weights of regions
        are this one's."""
        return replace(
            self,
            words=[*self.words, *other.words],
            contributions=_joined(self.contributions, other.contributions),
            attention=_joined(self.attention, other.attention),
            shares=_joined(self.shares, other.shares),
            word_weights=_joined(self.word_weights, other.word_weights),
        )


def _joined(one: Sequence[T] | None, other: Sequence[T] | None) -> Sequence[T] | None:
    """The values of the words of two explanations; None where the model gives none."""
    return None if one is None or other is None else [*one, *other]


@dataclass(frozen=True)
class NearDuplicate:
    """A picture that looks like one of the results; their hashes differ in `bits` of 64 bits."""

    image: Image
    bits: int

    @property
    def image_id(self) -> str:
        """The picture's id."""
        return self.image.image_id

    @property
    def filename(self) -> str:
        """The picture's file name."""
        return self.image.filename

    @property
    def thumbnail_url(self) -> str | None:
        """Path of the picture's thumbnail."""
        return thumbnail_url(self.image)


@dataclass(frozen=True, kw_only=True)
class RankedPicture(Image):
    """A picture found: the catalog's record of it with its scores. Ranks count from 1.

    A picture found by its text alone is not in the model's ranking, and so has no score.
    """

    score: float | None = None
    shortlist_rank: int | None = None
    rank: int = 0
    probability: float | None = None
    found_by: Sequence[FoundBy] = ("pictures",)
    near_duplicates: Sequence[NearDuplicate] | None = None
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
    """A caption found: the catalog's record of it with its scores. Ranks count from 1."""

    score: float
    shortlist_rank: int
    rank: int = 0
    probability: float | None = None
    explanation: PairExplanation | None = None


@dataclass(frozen=True)
class ShardCounts:
    """The numbers of shards that a search asked and that answered."""

    asked: int
    answered: int


@dataclass(frozen=True)
class Origin:
    """The model that a result comes from, the limits asked for, and the state of the index."""

    model: str
    model_digest: str
    k: int
    shortlist: int
    index_version: str


@dataclass(frozen=True)
class Reading:
    """The words of the query as the model reads them, None without words, and a note for people: what is not
    understood, or why there is nothing to be found."""

    query: str | None = None
    unknown_words: Sequence[str] | None = None
    read_as: Mapping[str, str] | None = None
    note: str | None = None
    suggestion: Suggestion | None = None


@dataclass(frozen=True, kw_only=True)
class SearchResult(Generic[AnyRanked]):
    """Hits, best first (or as the request sorts them), and their origin.

    `left_out` counts the candidates below `min_score` or `min_probability`; `matched` says whether anything matches,
    None where that is unknown; `timings_ms` has the milliseconds of each stage.
    """

    origin: Origin
    reading: Reading
    left_out: int = 0
    matched: bool | None = None
    results: Sequence[AnyRanked] = ()
    shards: ShardCounts | None = None
    """None where all pictures lie in one data directory."""
    timings_ms: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class TextSearchResult(SearchResult[RankedPicture]):
    """Pictures for a sentence."""

    match: Literal["pictures", "text", "both"]
    matched_by_pictures: bool | None = None
    """Whether a picture matches by what it shows, whatever texts hold; None where that is unknown."""


@dataclass(frozen=True, kw_only=True)
class ImageSearchResult(SearchResult[AnyRanked]):
    """Captions for a picture, or pictures like it."""

    target: Literal["captions", "images"]
