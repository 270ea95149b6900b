"""Questions and answers of a search as plain values: what routes and the command line hand to Search and get back."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from index.filters import Filter
from index.records import Caption, Image

Box: TypeAlias = tuple[float, float, float, float]


@dataclass(frozen=True, kw_only=True)
class Question:
    """What every search asks for."""

    k: int = 10
    shortlist: int = 100
    model: str | None = None
    explain: bool = False
    min_score: float | None = None
    min_probability: float | None = None  # asks nothing of what has no probability
    filter: Filter | None = None


@dataclass(frozen=True, kw_only=True)
class TextQuestion(Question):
    """Which pictures show what `text` says."""

    text: str
    sort: Literal["relevance", "date"] = "relevance"


@dataclass(frozen=True, kw_only=True)
class ImageQuestion(Question):
    """Which captions describe a picture, or which pictures look like it."""

    target: Literal["captions", "images"] = "captions"


@dataclass(frozen=True)
class Region:
    """A region of a picture; `box` is x1 y1 x2 y2 in pixels of the upright picture.

    Box and confidence are None where features alone came and did not say.
    """

    box: Box | None
    label: str
    confidence: float | None


@dataclass(frozen=True)
class Word:
    """One word as the model scored it; special words were not in the sentence."""

    text: str
    special: bool


@dataclass(frozen=True)
class Explained:
    """Why one picture and one sentence scored what they did; None where the model has no exact answer."""

    kind: str
    words: Sequence[Word]
    regions: Sequence[Region]
    contributions: Sequence[float] | None = None
    attention: Sequence[Sequence[float]] | None = None
    word_weights: Sequence[float] | None = None
    region_weights: Sequence[float] | None = None


@dataclass(frozen=True, kw_only=True)
class Hit:
    """A picture that answers; `shortlist_rank` counts from 1."""

    image: Image
    score: float
    shortlist_rank: int
    probability: float | None = None
    explained: Explained | None = None


@dataclass(frozen=True, kw_only=True)
class CaptionFound:
    """A caption that answers."""

    caption: Caption
    score: float
    shortlist_rank: int
    probability: float | None = None
    explained: Explained | None = None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Best first. `left_out`: how many of the shortlist scored below what was asked for. `milliseconds`: stage -> time
    spent; `unknown_words` is empty when a picture asked."""

    model: str
    digest: str
    index_version: str
    hits: Sequence[Hit] = ()
    captions: Sequence[CaptionFound] = ()
    unknown_words: Sequence[str] = ()
    left_out: int = 0
    milliseconds: dict[str, float] = field(default_factory=dict)
