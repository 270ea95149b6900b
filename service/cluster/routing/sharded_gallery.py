"""The gallery of many shards: every step of a search calls all of them at once and merges their answers.

Rows are numbers that a query gives to pictures and captions as shards report them. Since shards compute the same inner
products and scores with the same code as a single machine, the merged answer is that of one machine with all pictures.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from typing import Any, Protocol, TypeVar, TypeVarTuple

import numpy as np
import torch

from index.catalog.filters import Filter
from index.catalog.identities import CaptionCounts, CaptionName
from index.catalog.text.named_tags import Tag
from index.catalog.text.search import TextMatch
from index.catalog.text.statistics import ScoredText, TextStatistics
from index.records import Caption, Image
from models.matching.encoded import EncodedImages, EncodedTexts
from service.cluster.messages import (
    Floats,
    ItemName,
    SentTexts,
    ShardLost,
    ShardState,
)
from service.cluster.placement import Placement
from service.cluster.routing.fan_out import FanOut, all_answers
from service.cluster.routing.merging import RowTable, merged_candidates
from service.cluster.routing.open_shards import Opening
from service.cluster.routing.shard_scores import ShardScores
from service.cluster.shards.search import ABSENT, ShardSearch
from service.errors import FeaturesOnly, NotFound
from service.search.candidates import Candidates
from service.search.gallery import OpenGallery
from service.search.model_views import ModelView
from service.search.requests import SearchRequest, TextSearchRequest
from service.search.results import PairExplanation, ShardCounts
from service.search.scoring.rerank import RowNumbers, Scores
from service.storage.regions.records import PictureFeatures

ID_BITS = 53  # of a caption's id, since JavaScript represents larger integers inexactly
MOST_MISSED = 0.05  # share of a shortlist that a search of one round trip may go without
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
        """`opening` is waited for, and may raise, when the shards are first needed."""
        self._fan_out, self._request, self._opening, self._round_trips = fan_out, request, opening, round_trips
        self._pictures, self._captions = RowTable[str](), RowTable[CaptionName]()
        self._scores = ShardScores(self._pictures)
        self._matches: dict[int, Sequence[ScoredText]] = {}

    @property
    def shards(self) -> ShardCounts:
        """The numbers of all shards and of those that answer."""
        opened = self._opening.result()
        return ShardCounts(asked=opened.num_shards, answered=len(opened.states))

    @property
    def version(self) -> str:
        """The version of the answers: it changes whenever the model's answers may."""
        return self._opening.result().version

    @property
    def _states(self) -> Mapping[int, ShardState]:
        return self._opening.result().states

    @property
    def is_empty(self) -> bool:
        """Whether no picture was ever encoded for the model."""
        return all(state.is_empty for state in self._states.values())

    num_missing = 0  # unknown: shards do not report it

    @property
    def has_captions(self) -> bool:
        """Whether there is a caption to be found."""
        return any(state.has_captions for state in self._states.values())

    def captions_per_picture(self) -> float:
        """The mean number of captions of a captioned picture."""
        counts = [state.captions for state in self._states.values()]
        return CaptionCounts(sum(count.captions for count in counts), sum(count.pictures for count in counts)).each

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

    def text_matches(self, request: TextSearchRequest, subject: str) -> list[TextMatch]:
        """Pictures whose text holds the subject, which shards parse themselves; as many as the request reranks."""
        if (statistics := self._unsearched_statistics) is not None:
            self._matches |= self._ask(ShardSearch.text_matches, dict.fromkeys(self._unsearched, (request, statistics)))
        answers = self._matches
        # Of a picture that is being moved, the copy in the newer shard counts, as in merging.py.
        by_id = {text.image.image_id: (shard, text) for shard in sorted(answers) for text in answers[shard]}
        ranking = sorted(by_id.values(), key=lambda hit: (hit[1].order, -hit[1].image.added_at, hit[1].image.image_id))
        orders = [text.order for _, text in ranking]
        matches = []
        for shard, text in ranking[: request.shortlist]:
            row = self._pictures.of(shard, text.image.image_id)
            self._scores.take_image(text.image)
            rank = 1 + bisect_left(orders, text.order)
            matches.append(TextMatch(replace(text.image, slot=row), rank, text.by_folder))
        return matches

    def named_tags(self, question: str) -> Sequence[Tag]:
        """None, since shards do not report them."""
        return ()

    def may_hold(self, condition: Filter) -> bool:
        """True, since shards are not asked."""
        return True

    def _first_candidates(self, vector: Floats, texts: EncodedTexts) -> Candidates:
        """The shortlist of a sentence, of which each shard has already scored its likely share."""
        sent, num_scored = SentTexts.of(texts), self._opening.num_scored_first
        answers = self._opening.first_answers(vector, sent)
        if answers is None:
            answers = self._ask_all(ShardSearch.first_answer, self._request, num_scored, vector, sent)
        statistics = self._opening.result().statistics
        for shard in sorted(answers):  # of a picture that is being moved, the copy in the newer shard counts
            self._scores.take(answers[shard].scores, answers[shard].images)
            if statistics is not None and (counted := answers[shard].counted) is not None:
                self._matches[shard] = [text.scored(statistics) for text in counted]
        rankings = {shard: answer.ranking for shard, answer in answers.items()}
        candidates = merged_candidates(rankings, self._request.shortlist, self._pictures)
        num_missed = len(self._scores.unscored(candidates.rows_to_score))
        if self._round_trips == 1 and 0 < num_missed <= MOST_MISSED * self._request.shortlist:
            firsts = {shard: ranking.first(num_scored) for shard, ranking in rankings.items()}
            candidates = merged_candidates(firsts, self._request.shortlist, self._pictures)
        return candidates

    @property
    def _unsearched(self) -> list[int]:
        """The shards whose texts have not been searched for the question yet."""
        return [shard for shard in self._states if shard not in self._matches]

    @property
    def _unsearched_statistics(self) -> TextStatistics | None:
        """The statistics for searching them; None where all are searched, or no texts are to be searched."""
        return self._opening.result().statistics if self._unsearched else None

    def first_scorer(self, rows: RowNumbers, texts: EncodedTexts) -> Callable[[], Scores]:
        """Work that gives the [len(rows)] score of each picture with the sentence that `nearest_pictures` was given."""
        return partial(self._first_scores, rows, texts)

    def picture_scorer(self, rows: RowNumbers, texts: EncodedTexts) -> Callable[[], Scores]:
        """Work that gives the [len(rows)] score of each picture with another sentence."""
        return partial(self._other_scores, rows, texts)

    def _other_scores(self, rows: RowNumbers, texts: EncodedTexts) -> Scores:
        """The [len(rows)] score of each picture; 0 where the picture's shard does not find it any more."""
        named = self._pictures.by_shard(rows)
        scores: dict[str, np.float32] = {}
        for shard, answer in self._ask_about(ShardSearch.score_pictures, named, SentTexts.of(texts), 0, None).items():
            scores |= zip(named[shard], np.where(answer.scores == ABSENT, 0, answer.scores), strict=True)
        return np.array([scores.get(name, 0) for name in self._pictures.of_rows(rows)], np.float32)

    def _first_scores(self, rows: RowNumbers, texts: EncodedTexts) -> Scores:
        named = self._pictures.by_shard(self._scores.unscored(rows))
        statistics = self._unsearched_statistics
        text_searches = {} if statistics is None else dict.fromkeys(self._unsearched, statistics)
        # A shard's texts are searched even if none of its pictures is to be scored.
        named |= {shard: [] for shard in text_searches if shard not in named}
        self._ask_scores(named, texts, text_searches)
        # A hedged request may have been answered by a replica that does not find a moved picture yet.
        if elsewhere := self._scores.elsewhere(rows):
            self._ask_scores(elsewhere, texts, {})
            self._pictures.move_all(elsewhere)
        return self._scores.of_rows(rows)

    def _ask_scores(
        self, named: Mapping[int, Sequence[str]], texts: EncodedTexts, text_searches: Mapping[int, TextStatistics]
    ) -> None:
        """Have the pictures named in each shard scored. The shards of `text_searches` search their texts as well, with
        these statistics."""
        sent = SentTexts.of(texts)
        calls = {
            shard: (self._request, names, sent, self._request.k, text_searches.get(shard))
            for shard, names in named.items()
        }
        for shard, answer in self._ask(ShardSearch.score_pictures, calls).items():
            self._scores.take(dict(zip(named[shard], answer.scores, strict=True)), answer.images)
            if shard in text_searches:
                self._matches[shard] = answer.matches

    def caption_scorer(self, rows: RowNumbers, images: EncodedImages) -> Callable[[], Scores]:
        """Work that gives the [len(rows)] score of each caption with the one picture."""
        return partial(self._caption_scores, rows, images)

    def _caption_scores(self, rows: RowNumbers, images: EncodedImages) -> Scores:
        named = self._captions.by_shard(rows)
        scores: dict[CaptionName, np.float32] = {}
        for shard, shard_scores in self._ask_about(ShardSearch.score_captions, named, images).items():
            scores |= zip(named[shard], shard_scores, strict=True)
        return np.array([scores[name] for name in self._captions.of_rows(rows)], np.float32)

    def images_at(self, rows: Sequence[int]) -> list[Image | None]:
        """The pictures of rows, their `slot` being the row; None where one is no longer shown."""
        unread = self._pictures.by_shard(self._scores.unread(rows))
        answers = self._ask(ShardSearch.images, {shard: (names,) for shard, names in unread.items()})
        for shard, names in unread.items():
            self._scores.take_images(dict.fromkeys(names) | answers[shard])
        return self._scores.images_of(rows)

    def captions_at(self, rows: Sequence[int]) -> list[Caption | None]:
        """The captions of rows, their `slot` being the row; None where one is no longer shown."""
        calls = {shard: (names,) for shard, names in self._captions.by_shard(rows).items()}
        by_name: dict[CaptionName, Caption] = {}
        for part in self._ask(ShardSearch.captions, calls).values():
            by_name |= part
        captions = [by_name.get(self._captions.names[row]) for row in rows]
        return [
            None if caption is None else replace(caption, slot=row, caption_id=caption_id(self._captions.names[row]))
            for row, caption in zip(rows, captions, strict=True)
        ]

    def picture_explainer(
        self, rows: Sequence[int], texts: EncodedTexts, tokens: Sequence[str]
    ) -> Callable[[], list[PairExplanation]]:
        """Work that explains the score of each picture with the one sentence, whose unpadded words are `tokens`."""

        def explain() -> list[PairExplanation]:
            named, sent = self._pictures.by_shard(rows), SentTexts.of(texts)
            answers = self._ask_about(ShardSearch.explain_pictures, named, sent, tokens)
            return in_order(self._pictures.of_rows(rows), answers)

        return explain

    def caption_explainer(
        self, captions: Sequence[Caption], images: EncodedImages, picture: PictureFeatures
    ) -> Callable[[], list[PairExplanation]]:
        """Work that explains the score of each caption with the one picture."""

        def explain() -> list[PairExplanation]:
            rows = [caption.slot for caption in captions if caption.slot is not None]
            named = self._captions.by_shard(rows)
            answers = self._ask_about(ShardSearch.explain_captions, named, images, picture)
            return in_order(self._captions.of_rows(rows), answers)

        return explain

    def _ask_about(
        self, method: Callable[..., T], named: Mapping[int, Sequence[ItemName]], *arguments: Any
    ) -> dict[int, T]:
        """The answers of shards about the pictures or captions named in each, all with the same further arguments."""
        return self._ask(method, {shard: (self._request, names, *arguments) for shard, names in named.items()})

    def _ask_all(self, method: Callable[[ShardSearch, *Ts], T], *arguments: *Ts) -> dict[int, T]:
        return self._ask(method, dict.fromkeys(self._states, arguments))

    def _ask(self, method: Callable[..., T], arguments: Mapping[int, Sequence[Any]]) -> dict[int, T]:
        """The answers of all these shards. Raises ShardLost where one of them no longer answers."""
        # One replica of a shard answers all steps if it can: another one may know more or fewer pictures.
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
        """`extractor` is the digest of the detector in service; `placement` returns the current placement.

        Shards score their likely share of the shortlist at once, see one_round_trip.py. With two `round_trips`, the
        rest is scored in a second one. With one, a few unscored candidates are left out; if there are more, which means
        that a shard is missing or being filled, a second round trip is made as well.
        """
        self._fan_out, self._models, self._extractor, self._placement = fan_out, models, extractor, placement
        self._round_trips = round_trips

    def open(self, request: SearchRequest, without: Collection[int] = ()) -> OpenGallery:
        """The gallery of the request's model over the shards that answer, `without` those given up.

        Raises UnknownModel here; the gallery's first use raises what `Opening.result` does.
        """
        model = self._models.named(request.model)
        named = request.model_copy(update={"model": model.name})
        opening = Opening(self._fan_out, named, without)
        if not ranks_pictures(named):
            opening.begin()
        return OpenGallery(model, ShardedGallery(self._fan_out, named, opening, self._round_trips))

    def features(self, image_id: str, extractor: str) -> PictureFeatures:
        """The regions that the extractor with this digest found in a stored picture. Raises NotFound where it has none,
        NotReady where they are yet to be found anew, ShardLost where its shard does not answer."""
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
    """Whether the first use of the gallery is for the pictures nearest to a sentence."""
    return isinstance(request, TextSearchRequest) and request.match != "text"


def in_order(names: Sequence[ItemName], parts: Mapping[int, Mapping[ItemName, A]]) -> list[A]:
    """The values of shards in the order of the names. ShardLost, which restarts the search, where a picture is gone."""
    values = {name: value for part in parts.values() for name, value in part.items()}
    if any(name not in values for name in names):
        raise ShardLost("A picture was erased during the search; try again.")
    return [values[name] for name in names]


def caption_id(name: CaptionName) -> int:
    """A number for a caption that is the same in every replica, hashed from its picture and text."""
    digest = blake2b("\n".join(name).encode(), digest_size=8).digest()
    return int.from_bytes(digest) >> (64 - ID_BITS)
