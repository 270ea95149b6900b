"""Messages between routers and shards. Pictures and captions go by names that every replica of a shard shares."""

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
"""What pictures are called, or captions."""
SHARD_RETRY_S = 2  # after which another replica may answer, or the router know a new shard


class Behind(Exception):
    """A replica that lacks changes, or has just started, and so does not answer; another one does."""


class Moved(NotReady):
    """A change went to a shard that does not have the picture any more, or not yet; another one does."""


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
        """`num_shards`: the number of shards pictures are placed on now."""
        super().__init__("Pictures have moved to a shard that was added; try again shortly.")
        self.num_shards = num_shards


def check_placement(known: int | None, placed_among: int) -> None:
    """NewerPlacement where the replica let pictures go to shards beyond those that the asker knows; None knows all.

    Looked at after an answer is made: what the answer lacks was noted before it went.
    """
    if known is not None and placed_among > known:
        raise NewerPlacement(placed_among)


@dataclass(frozen=True)
class ShardState:
    """One state of a shard, as a model of it sees it."""

    version: str
    is_empty: bool
    has_captions: bool
    captions: CaptionCounts
    texts: TextStatistics | None
    """Of the question, where it is one that texts are searched for."""


class RankedName(NamedTuple, Generic[ItemName]):
    """A picture or caption with stage one's inner product, and when the picture was taken in."""

    name: ItemName
    product: float
    added_at: float


@dataclass(frozen=True)
class ShardRanking(Generic[ItemName]):
    """Stage one's best, of those that pass the filter and of all visible ones; `gallery` counts all visible ones.

    `unfiltered` is empty where there is no filter.
    """

    passing: Sequence[RankedName[ItemName]]
    unfiltered: Sequence[RankedName[ItemName]]
    gallery: int

    def first(self, count: int) -> Self:
        """The ranking's first `count` places."""
        return replace(self, passing=self.passing[:count], unfiltered=self.unfiltered[:count])


@dataclass(frozen=True)
class SentTexts:
    """Encoded sentences as arrays, which Ray pickles at once; a tensor takes it half a millisecond, for every shard."""

    arrays: Mapping[str, npt.NDArray[Any]]
    """Of the fields of EncodedTexts."""

    @classmethod
    def of(cls, texts: EncodedTexts) -> Self:
        """Sentences, wherever and in whatever precision their tensors are."""
        tensors = texts.tensors().items()
        return cls({name: (one.float() if one.is_floating_point() else one).cpu().numpy() for name, one in tensors})

    def received(self) -> EncodedTexts:
        """The sentences, their tensors copied: what Ray hands out may not be written to."""
        return EncodedTexts(**{name: torch.tensor(array) for name, array in self.arrays.items()})


@dataclass(frozen=True)
class ScoredPictures:
    """Scores of pictures in the order asked, and the records of the best of them, which will be shown."""

    scores: Floats
    images: Sequence[Image]
    matches: Sequence[ScoredText]
    """Pictures whose text holds the question, where that was asked for."""


@dataclass(frozen=True)
class FirstAnswer:
    """All that a shard says of a sentence at once, of one moment."""

    state: ShardState
    ranking: ShardRanking[str]
    scores: Mapping[str, np.float32]
    """Of those of its pictures that are likely among the best of all shards, by id."""
    images: Sequence[Image]
    """The records of the best of them, which will be shown."""
    counted: Sequence[CountedText] | None
    """Pictures whose text holds the question; None where they are too many to be sent at once."""
