"""The gallery of many shards: every step of a search is asked of all of them at once, and their answers are merged.

Rows are numbers that a query gives to pictures and captions as it hears of them. Merged by the same inner products, the
same scores and the same code that one machine runs, the answer is that of one machine with all pictures.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from typing import Any, Protocol, TypeVar, TypeVarTuple

import numpy as np
import torch

from index.catalog.identities import CaptionCounts, CaptionName
from index.catalog.text.named_tags import Tag
from index.catalog.text.search import TextMatch
from index.catalog.text.statistics import ScoredText, TextStatistics
from index.records import Caption, Image
from models.matching.encoded import EncodedImages, EncodedTexts
from service.cluster.messages import (
    Floats,
    ItemName,
    ScoredPictures,
    SentTexts,
    ShardLost,
    ShardState,
)
from service.cluster.placement import Placement
from service.cluster.routing.fan_out import FanOut, all_answers
from service.cluster.routing.merging import RowTable, merged_candidates
from service.cluster.routing.open_shards import Opening
from service.cluster.shards.search import ABSENT, ShardSearch
from service.errors import FeaturesOnly, NotFound
from service.search.candidates import Candidates
from service.search.gallery import OpenGallery
from service.search.model_views import ModelView
from service.search.requests import SearchRequest, TextSearchRequest
from service.search.results import PairExplanation, ShardCounts
from service.search.scoring.rerank import RowNumbers, Scores
from service.storage.regions.records import PictureFeatures

ID_BITS = 53  # of a caption's id: the whole numbers that JavaScript knows
MOST_MISSED = 0.05  # share of a shortlist that a search of one round trip goes without
A = TypeVar("A")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class ShardedGallery:
    """The gallery of one query: the pictures and captions of the shards that answered."""

    scores_elsewhere = True

    def __init__(
        self,
        fan_out: FanOut,
        request: SearchRequest,
        opening: Opening,
        round_trips: int = 2,
    ) -> None:
        """The shards that are `opening` are waited for when they are first needed, and fail there."""
        self._fan_out, self._request, self._opening, self._round_trips = fan_out, request, opening, round_trips
        self._scores: dict[str, np.float32] = {}
        self._matches: dict[int, Sequence[ScoredText]] = {}
        self._pictures, self._captions = RowTable[str](), RowTable[CaptionName]()
        self._images: dict[str, Image | None] = {}

    @property
    def shards(self) -> ShardCounts:
        """The numbers of shards that there are, and that answer."""
        opened = self._opening.result()
        return ShardCounts(asked=opened.num_shards, answered=len(opened.states))

    @property
    def version(self) -> str:
        """Changes whenever the model's answers may."""
        return self._opening.result().version

    @property
    def _states(self) -> Mapping[int, ShardState]:
        return self._opening.result().states

    @property
    def is_empty(self) -> bool:
        """Whether no picture was ever encoded for the model."""
        return all(state.is_empty for state in self._states.values())

    num_missing = 0  # shards do not tell

    @property
    def has_captions(self) -> bool:
        """Whether there is a caption to be found."""
        return any(state.has_captions for state in self._states.values())

    def captions_per_picture(self) -> float:
        """The mean number of captions of a captioned picture."""
        counts = [state.captions for state in self._states.values()]
        return CaptionCounts(sum(one.captions for one in counts), sum(one.pictures for one in counts)).each

    def nearest_pictures(
        self, embedding: torch.Tensor, request: SearchRequest, without: str | None, texts: EncodedTexts | None = None
    ) -> Candidates:
        """The shortlist of a [1, E] embedding; the picture whose id is `without` is left out."""
        vector = embedding.float().cpu().numpy()
        if texts is not None:
            return self._first_candidates(vector, texts)
        return merged_candidates(
            self._ask_all(ShardSearch.shortlist, request, vector, without), request.shortlist, self._pictures
        )

    def nearest_captions(self, embedding: torch.Tensor, request: SearchRequest) -> Candidates:
        """The shortlist of captions for a [1, E] embedding."""
        vector = embedding.float().cpu().numpy()
        return merged_candidates(
            self._ask_all(ShardSearch.caption_shortlist, request, vector), request.shortlist, self._captions
        )

    def text_matches(self, request: TextSearchRequest) -> list[TextMatch]:
        """Pictures whose text holds the question, as many as the request hands to the reranker."""
        if (statistics := self._untold_statistics) is not None:
            self._matches |= self._ask(ShardSearch.text_matches, dict.fromkeys(self._untold, (request, statistics)))
        answers = self._matches
        # Of a picture that is being moved, the one in the later shard counts, as in merging.py.
        once = {one.image.image_id: (shard, one) for shard in sorted(answers) for one in answers[shard]}
        found = sorted(once.values(), key=lambda one: (one[1].order, -one[1].image.added_at, one[1].image.image_id))
        orders = [one.order for _, one in found]
        matches = []
        for shard, one in found[: request.shortlist]:
            row = self._pictures.of(shard, one.image.image_id)
            self._images.setdefault(one.image.image_id, one.image)  # what was said when it was scored holds
            rank = 1 + bisect_left(orders, one.order)
            matches.append(TextMatch(replace(one.image, slot=row), rank, one.by_folder))
        return matches

    def named_tags(self, question: str) -> Sequence[Tag]:
        """None: shards do not tell."""
        return ()

    def _first_candidates(self, vector: Floats, texts: EncodedTexts) -> Candidates:
        """The shortlist of a sentence, of which each shard has scored what it likely holds of it."""
        sent, share = SentTexts.of(texts), self._opening.likely_share
        answers = self._opening.first_answers(vector, sent)
        if answers is None:
            answers = self._ask_all(ShardSearch.first_answer, self._request, share, vector, sent)
        statistics = self._opening.result().statistics
        for shard in sorted(answers):  # of a picture that is being moved, the one in the later shard counts
            self._take_scores(answers[shard].scores, answers[shard].images)
            if statistics is not None and (counted := answers[shard].counted) is not None:
                self._matches[shard] = [one.scored(statistics) for one in counted]
        rankings = {shard: one.ranking for shard, one in answers.items()}
        candidates = merged_candidates(rankings, self._request.shortlist, self._pictures)
        if self._round_trips == 1 and 0 < len(self._unscored(candidates)) <= MOST_MISSED * self._request.shortlist:
            firsts = {shard: one.first(share) for shard, one in rankings.items()}
            candidates = merged_candidates(firsts, self._request.shortlist, self._pictures)
        return candidates

    def _unscored(self, candidates: Candidates) -> list[int]:
        return [row for row in candidates.rows_to_score if self._pictures.names[row] not in self._scores]

    @property
    def _untold(self) -> list[int]:
        """Shards that have not said yet which of their pictures hold the question in their text."""
        return [shard for shard in self._states if shard not in self._matches]

    @property
    def _untold_statistics(self) -> TextStatistics | None:
        """Statistics by which these shards can say it; None where all have, or no texts are searched."""
        return self._opening.result().statistics if self._untold else None

    def _take_scores(self, scores: Mapping[str, np.float32], images: Iterable[Image]) -> None:
        """Remember what a shard said of its pictures; one that no shard has any more is not shown."""
        for name, score in scores.items():
            if score > ABSENT:
                self._scores[name] = score
                if name in self._images and self._images[name] is None:
                    del self._images[name]
            elif self._scores.setdefault(name, score) <= ABSENT:
                self._images[name] = None
        self._images |= {image.image_id: image for image in images}

    def picture_scorer(self, rows: RowNumbers, texts: EncodedTexts) -> Callable[[], Scores]:
        """Work that gives the [len(rows)] score of each picture with the one sentence."""
        return partial(self._picture_scores, rows, texts)

    def _picture_scores(self, rows: RowNumbers, texts: EncodedTexts) -> Scores:
        names = self._pictures.names
        placed = self._pictures.by_shard(int(row) for row in rows if names[int(row)] not in self._scores)
        untold = {} if (statistics := self._untold_statistics) is None else dict.fromkeys(self._untold, statistics)
        # Words are looked for where nothing is scored, too.
        named = {shard: self._named(self._pictures, placed.get(shard, ())) for shard in {**placed, **untold}}
        for shard, found in self._ask_scores(named, texts, untold).items():
            if shard in untold:
                self._matches[shard] = found.matches
        # A second request may have been answered by a replica that does not find a moved picture yet.
        gone = [names[int(row)] for row in rows if self._scores[names[int(row)]] <= ABSENT]
        if elsewhere := self._pictures.elsewhere(gone):
            self._ask_scores(elsewhere, texts, {})
            for shard, moved in elsewhere.items():
                for name in moved:
                    self._pictures.move(name, shard)
        return np.array([self._scores[names[int(row)]] for row in rows], np.float32)

    def _ask_scores(
        self, named: Mapping[int, Sequence[str]], texts: EncodedTexts, statistics: Mapping[int, TextStatistics]
    ) -> Mapping[int, ScoredPictures]:
        """Take up what shards say of the pictures named in each; their answers.

        Those for which there are statistics look for the words as well.
        """
        sent = SentTexts.of(texts)
        asked = {
            shard: (self._request, own, sent, self._request.k, statistics.get(shard)) for shard, own in named.items()
        }
        answers: Mapping[int, ScoredPictures] = self._ask(ShardSearch.score_pictures, asked)
        for shard, found in answers.items():
            self._take_scores(dict(zip(named[shard], found.scores, strict=True)), found.images)
        return answers

    def caption_scorer(self, rows: RowNumbers, images: EncodedImages) -> Callable[[], Scores]:
        """Work that gives the [len(rows)] score of each caption with the one picture."""
        return partial(self._caption_scores, rows, images)

    def _caption_scores(self, rows: RowNumbers, images: EncodedImages) -> Scores:
        placed = self._captions.by_shard(int(row) for row in rows)
        names = {shard: self._named(self._captions, own) for shard, own in placed.items()}
        asked = {shard: (self._request, own, images) for shard, own in names.items()}
        scores: dict[int, np.float32] = {}
        for shard, found in self._ask(ShardSearch.score_captions, asked).items():
            scores |= zip(placed[shard], found, strict=True)
        return np.array([scores[int(row)] for row in rows], np.float32)

    def images_at(self, rows: Sequence[int]) -> list[Image | None]:
        """The pictures of rows, their `slot` being the row; None where one is not shown any more."""
        unread = [row for row in rows if self._pictures.names[row] not in self._images]
        placed = self._pictures.by_shard(unread)
        asked = {shard: (self._named(self._pictures, own),) for shard, own in placed.items()}
        self._images |= dict.fromkeys(self._named(self._pictures, unread))
        for found in self._ask(ShardSearch.images, asked).values():
            self._images |= found
        images = [self._images[self._pictures.names[row]] for row in rows]
        return [None if image is None else replace(image, slot=row) for row, image in zip(rows, images, strict=True)]

    def captions_at(self, rows: Sequence[int]) -> list[Caption | None]:
        """The captions of rows, their `slot` being the row; None where one is not shown any more."""
        placed = self._captions.by_shard(rows)
        asked = {shard: (self._named(self._captions, own),) for shard, own in placed.items()}
        found: dict[CaptionName, Caption] = {}
        for part in self._ask(ShardSearch.captions, asked).values():
            found |= part
        captions = [found.get(self._captions.names[row]) for row in rows]
        return [
            None if one is None else replace(one, slot=row, caption_id=caption_id(self._captions.names[row]))
            for row, one in zip(rows, captions, strict=True)
        ]

    def picture_explainer(
        self, rows: Sequence[int], texts: EncodedTexts, tokens: Sequence[str]
    ) -> Callable[[], list[PairExplanation]]:
        """Work that tells why each picture scored what it did with the one sentence, whose real words are `tokens`."""

        def explain() -> list[PairExplanation]:
            placed = self._pictures.by_shard(rows)
            sent = SentTexts.of(texts)
            asked = {
                shard: (self._request, self._named(self._pictures, own), sent, tokens) for shard, own in placed.items()
            }
            return in_order(self._named(self._pictures, rows), self._ask(ShardSearch.explain_pictures, asked))

        return explain

    def caption_explainer(
        self, captions: Sequence[Caption], images: EncodedImages, picture: PictureFeatures
    ) -> Callable[[], list[PairExplanation]]:
        """Work that tells why each caption scored what it did with the one picture."""

        def explain() -> list[PairExplanation]:
            rows = [caption.slot for caption in captions if caption.slot is not None]
            placed = self._captions.by_shard(rows)
            named = {shard: self._named(self._captions, own) for shard, own in placed.items()}
            asked = {shard: (self._request, names, images, picture) for shard, names in named.items()}
            return in_order(self._named(self._captions, rows), self._ask(ShardSearch.explain_captions, asked))

        return explain

    def _named(self, rows: RowTable[ItemName], wanted: Iterable[int]) -> list[ItemName]:
        return [rows.names[row] for row in wanted]

    def _ask_all(self, method: Callable[[ShardSearch, *Ts], T], *arguments: *Ts) -> dict[int, T]:
        return self._ask(method, dict.fromkeys(self._states, arguments))

    def _ask(self, method: Callable[..., T], arguments: Mapping[int, Sequence[Any]]) -> dict[int, T]:
        """The answers of all these shards. ShardLost where one of them does not answer any more."""
        # One replica answers all steps, as long as it does: another one may know of more or fewer pictures.
        return all_answers(self._fan_out, method, arguments, self._opening.result().chosen)


class NamedModels(Protocol):
    """The models that a router has loaded."""

    def named(self, name: str | None) -> ModelView:
        """The model of that name, the default for None. Raises UnknownModel where there is none."""


class ShardedGalleries:
    """The galleries of many shards."""

    def __init__(
        self,
        fan_out: FanOut,
        models: NamedModels,
        extractor: str,
        placement: Callable[[], Placement],
        round_trips: int = 2,
    ) -> None:
        """`extractor` is the digest of the detector in service; `placement` says where pictures are now.

        Shards score their likely share of the shortlist at once, see one_round_trip.py. In two `round_trips` they are
        asked for what is left of it; in one a few candidates that are left are missed, and more are asked for as well:
        then a shard is missing, or one is being filled.
        """
        self._fan_out, self._models, self._extractor, self._placement = fan_out, models, extractor, placement
        self._round_trips = round_trips

    def open(self, request: SearchRequest, without: Collection[int] = ()) -> OpenGallery:
        """The gallery of the request's model, over the shards that answer, and are not among those given up.

        UnknownModel at once; what `Opening.result` names where the gallery is first looked into.
        """
        model = self._models.named(request.model)
        named = request.model_copy(update={"model": model.name})
        opening = Opening(self._fan_out, named, without)
        if not ranks_pictures(named):
            opening.begin()
        return OpenGallery(model, ShardedGallery(self._fan_out, named, opening, self._round_trips))

    def features(self, image_id: str, extractor: str) -> PictureFeatures:
        """The regions that the extractor with this digest found in a stored picture. Raises NotFound where it has none,
        NotReady where these are yet to be found anew, ShardLost where its shard does not answer."""
        *others, last = self._placement().places(image_id)
        for shard in others:
            with suppress(NotFound):
                return self._features(shard, image_id, extractor)
        return self._features(last, image_id, extractor)

    def _features(self, shard: int, image_id: str, extractor: str) -> PictureFeatures:
        return all_answers(self._fan_out, ShardSearch.features, {shard: (image_id, extractor)})[shard]

    def check_detector_of(self, model: ModelView) -> None:
        """FeaturesOnly unless the model reads what the detector in service finds."""
        if model.header.extractor_digest != self._extractor:
            raise FeaturesOnly(
                f"{model.name} reads features of another detector: ask with the image_id of a stored one."
            )


def ranks_pictures(request: SearchRequest) -> bool:
    """Whether the first look into the gallery is for the pictures nearest to a sentence."""
    return isinstance(request, TextSearchRequest) and request.match != "text"


def in_order(names: Sequence[ItemName], parts: Mapping[int, Mapping[ItemName, A]]) -> list[A]:
    """Answers of shards in the order of the names. ShardLost where one is gone; the search begins again without it."""
    said = {name: value for part in parts.values() for name, value in part.items()}
    if any(name not in said for name in names):
        raise ShardLost("A picture was erased during the search; try again.")
    return [said[name] for name in names]


def caption_id(name: CaptionName) -> int:
    """A number for a caption that is the same in every replica: of its picture and its text."""
    digest = blake2b("\n".join(name).encode(), digest_size=8).digest()
    return int.from_bytes(digest) >> (64 - ID_BITS)
