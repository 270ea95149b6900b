"""Answers to searches over HTTP, built from the attributes of service/search/results.py."""

import functools
import hashlib
import json
from typing import Literal, TypeAlias

from pydantic import Field

from service.api.schemas.resources import Answer, Box, Moment
from service.search.requests import Period


def _is_none(value: object) -> bool:
    return value is None


def _is_false(value: object) -> bool:
    return value is False


class Token(Answer):
    """One word as the model scored it."""

    text: str
    special: bool = Field(description="True for marks such as <start>, which the sentence did not contain.")
    content: bool = Field(
        description="True for words that name something; false for words such as `the`, punctuation and marks."
    )
    excluded: bool = Field(
        False,
        exclude_if=_is_false,
        description="True for words that the query rules out: what they added was subtracted from the score.",
    )


class ExplanationAnswer(Answer):
    """The explanation of a result's score; null where the model has no exact answer."""

    kind: Literal["words attend regions", "regions attend words", "weights", "text"] = Field(
        description="`text`: the picture's text holds the `words`, and the model did not look at the picture."
    )
    words: list[Token]
    contributions: list[float] | None = Field(description="One a word; they add up to the score.")
    regions: list[Box]
    attention: list[list[float]] | None = Field(
        description="[word][region]: the weight of the region among all regions for the word, or, where regions attend"
        " words, of the word among all words for the region. How the model looked, not what it found."
    )
    shares: list[list[float]] | None = Field(
        None,
        description="[word][region]: the part of the score that the word and the region added together. Over the"
        " regions the shares add up to the word's contribution, over all pairs to the score. Null where the model's"
        " score is no such sum.",
    )
    word_weights: list[float] | None
    region_weights: list[float] | None


class NearDuplicateAnswer(Answer):
    """A picture that looks like a result, and is shown with it."""

    image_id: str
    filename: str
    thumbnail_url: str | None
    bits: int = Field(description="In how many of 64 bits their hashes differ: at most 4.")


class PictureHit(Answer):
    """A picture that was found."""

    rank: int = Field(description="Place in this list, from 1.")
    image_id: str
    found_by: list[Literal["pictures", "text"]] = Field(
        description="`pictures`: it is in the model's ranking; `text`: its name, captions, tags and date hold every"
        " word of the query."
    )
    score: float | None = Field(
        description="Raw score of the model; for pictures like a picture, a cosine. Null where the text alone found it."
    )
    probability: float | None = Field(
        description="That this is the picture described, given that one is; null without a calibration, and for"
        " pictures like a picture."
    )
    shortlist_rank: int | None = Field(
        description="Place that stage one gave it, from 1; null where the text alone found it."
    )
    url: str | None = Field(description="Null where features alone were taken in: there is no picture to show.")
    thumbnail_url: str | None
    width: int | None = Field(description="Null where features came without it.")
    height: int | None
    filename: str
    taken_at: Moment | None
    captions: list[str]
    tags: dict[str, str | int | float]
    near_duplicates: list[NearDuplicateAnswer] | None = Field(
        None,
        exclude_if=_is_none,
        description="Pictures of the shortlist, and of those that the text found, that look the same and are left out;"
        " only with group_near_duplicates.",
    )
    explanation: ExplanationAnswer | None = Field(None, exclude_if=_is_none, description="Only when asked for.")


class CaptionHit(Answer):
    """A caption that was found."""

    rank: int
    caption_id: int
    text: str
    image_id: str = Field(description="The picture it was given with.")
    score: float
    probability: float | None = Field(
        description="That this caption was given with the picture, given that some were; null without a calibration."
    )
    shortlist_rank: int
    explanation: ExplanationAnswer | None = Field(None, exclude_if=_is_none, description="Only when asked for.")


class Timings(Answer):
    """Milliseconds of each stage; `total` includes waiting for the accelerator and for the model to be loaded."""

    encode: float
    shortlist: float
    rerank: float
    total: float
    load: float | None = Field(
        None,
        exclude_if=_is_none,
        description="Until the model was loaded: only of queries that waited for that, because nobody had asked the"
        " model since the service started.",
    )


class TextTimings(Timings):
    """Milliseconds of each stage, including the search of file names, captions, tags and dates."""

    text: float


class ImageTimings(Timings):
    """Milliseconds of each stage, including finding the regions of an uploaded picture."""

    detect: float


class ShardCountsAnswer(Answer):
    """The numbers of shards asked and of those that answered; if these are fewer, the answer is partial."""

    asked: int
    answered: int


class SuggestionAnswer(Answer):
    """The words of a query beside a date that pictures have, and that date as a filter."""

    query: str
    taken_at: Period


class SearchAnswer(Answer):
    """The part of an answer that all searches share."""

    model: str
    model_digest: str
    k: int
    shortlist: int
    index_version: str = Field(description="Changes whenever what can be found changes.")
    cached: bool
    left_out: int = Field(
        description="How many candidates of the shortlist min_score or min_probability left out. With no results and"
        " some left out, nothing matches well enough; with none left out there was nothing to find."
    )
    matched: bool | None = Field(
        None,
        description="Whether anything that can be found matches: false where nothing does, null where that cannot be"
        " told, where the model has no such calibration, and for pictures like a picture.",
    )
    suggestion: SuggestionAnswer | None = Field(None, exclude_if=_is_none)
    shards: ShardCountsAnswer | None = Field(
        None, exclude_if=_is_none, description="Only of a collection that lies on several machines."
    )


class TextAnswer(SearchAnswer):
    """Pictures for a sentence, best first."""

    query: str
    match: Literal["pictures", "text", "both"]
    matched_by_pictures: bool | None = Field(
        None,
        description="Like `matched`, of what pictures show alone: false where what is found beside the pictures whose"
        " text holds the words only comes nearest.",
    )
    unknown_words: list[str] = Field(
        description="Words of the query that mean nothing to the model: unseen in training, or no words at all."
    )
    read_as: dict[str, str] = Field(
        default_factory=dict, description="Misspelt or unseen word of the query -> the word that it was read as."
    )
    note: str | None = Field(
        None,
        exclude_if=_is_none,
        description="For people: what was searched for, where words of the query only ask for pictures, and what of it"
        " is hardly understood: a word that rules something out, another language.",
    )
    results: list[PictureHit]
    timings_ms: TextTimings


class ImageAnswer(SearchAnswer):
    """Captions or pictures for a picture, best first."""

    target: Literal["captions", "images"]
    query: str | None = Field(None, exclude_if=_is_none, description="The words that the pictures should fit besides.")
    unknown_words: list[str] | None = Field(None, exclude_if=_is_none, description="Of the words: as of a sentence.")
    read_as: dict[str, str] | None = Field(None, exclude_if=_is_none, description="Of the words: as of a sentence.")
    note: str | None = Field(
        None,
        exclude_if=_is_none,
        description="For people: that no captions are stored, so that none can be found; or what of the words is hardly"
        " understood.",
    )
    results: list[CaptionHit] | list[PictureHit]
    timings_ms: ImageTimings


AnyAnswer: TypeAlias = TextAnswer | ImageAnswer


@functools.cache
def answer_format() -> str:
    """A name for the format of answers, which changes with any of their fields, so that cached formats never mix."""
    schemas = [schema.model_json_schema() for schema in (TextAnswer, ImageAnswer)]
    return hashlib.sha256(json.dumps(schemas, sort_keys=True).encode()).hexdigest()[:12]
