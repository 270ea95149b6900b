"""Messages between routers and shards, in which pictures and captions have names that all replicas share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from index.catalog.identities import CaptionCounts, CaptionName
from index.catalog.text.statistics import CountedText, ScoredText, TextStatistics
from index.records import Image
from models.matching.encoded import EncodedTexts
from service.errors import NotReady, Problem

Floats = npt.NDArray[np.float32]
ItemName = TypeVar("ItemName", str, CaptionName)
"""The names of pictures, or of captions."""
SHARD_RETRY_S = 2  # after which another replica may answer, or the router may know a new shard


class Behind(Exception):
    """A replica that does not answer because it lacks changes or has just started; its sibling should."""


class Moved(NotReady):
    """A change reached a shard that no longer has the picture, or does not have it yet."""


class ShardLost(Problem):
    """No replica of a shard answers in time."""

    status = 503
    kind = "shard-lost"
    title = "A part of the collection does not answer"

    def __init__(self, detail: str, shards: Sequence[int] = ()) -> None:
        """`shards` are those that are known not to answer."""
        super().__init__(detail, retry_after=SHARD_RETRY_S)
        self.shards = tuple(shards)


class NewerPlacement(ShardLost):
    """Pictures have moved to shards that the router does not know of."""

    def __init__(self, num_shards: int) -> None:
        """`num_shards` is the number of shards that pictures are placed among now."""
        super().__init__("Pictures have moved to a shard that was added; try again shortly.")
        self.num_shards = num_shards


def check_placement(known: int | None, placed_among: int) -> None:
    """NewerPlacement where the replica has released pictures to shards that the caller does not know; None knows all.

    Called after an answer is made: a picture that it lacks was noted before its release.
    """
    if known is not None and placed_among > known:
        raise NewerPlacement(placed_among)


@dataclass(frozen=True)
class ShardState:
    """One state of a shard, as a model sees it."""

    version: str
    is_empty: bool
    has_captions: bool
    captions: CaptionCounts
    texts: TextStatistics | None
    """The statistics of the question's words, where texts are searched."""


class RankedName(NamedTuple, Generic[ItemName]):
    """A picture or caption with stage one's inner product, and the time when the picture was added."""

    name: ItemName
    product: float
    added_at: float


@dataclass(frozen=True)
class ShardRanking(Generic[ItemName]):
    """Stage one's best of the items that pass the filter, and of all visible ones, whose number is `gallery`.

    `unfiltered` is empty without a filter.
    """

    passing: Sequence[RankedName[ItemName]]
    unfiltered: Sequence[RankedName[ItemName]]
    gallery: int

    def first(self, count: int) -> Self:
        """The first `count` places of both rankings."""
        return replace(self, passing=self.passing[:count], unfiltered=self.unfiltered[:count])


@dataclass(frozen=True)
class SentTexts:
    """Encoded sentences as arrays, since pickling a tensor takes Ray half a millisecond for every shard."""

    arrays: Mapping[str, npt.NDArray[Any]]
    """The fields of EncodedTexts."""

    @classmethod
    def of(cls, texts: EncodedTexts) -> Self:
        """The arrays of sentences whose tensors are on any device and in any precision."""
        tensors = texts.tensors().items()
        return cls({name: (t.float() if t.is_floating_point() else t).cpu().numpy() for name, t in tensors})

    def received(self) -> EncodedTexts:
        """The sentences, with copied tensors, since Ray's arrays are read-only."""
        return EncodedTexts(**{name: torch.tensor(array) for name, array in self.arrays.items()})


@dataclass(frozen=True)
class ScoredPictures:
    """Scores of pictures in the order asked, and the records of the best of them, which may be shown."""

    scores: Floats
    images: Sequence[Image]
    matches: Sequence[ScoredText]
    """Pictures whose text holds the question, where texts were searched."""


@dataclass(frozen=True)
class FirstAnswer:
    """A shard's first answer to a sentence, of one moment."""

    state: ShardState
    ranking: ShardRanking[str]
    scores: Mapping[str, np.float32]
    """Scores of the pictures that are likely among the best of all shards, by id."""
    images: Sequence[Image]
    """Records of the best of these, which may be shown."""
    counted: Sequence[CountedText] | None
    """Pictures whose text holds the question; None where they are too many to send."""
