"""A shard's part of a search: the calls of a router to one data directory, one per step.

Every call sees a state of its own: between two calls, pictures may be added and removed, but not changed. A picture
removed meanwhile scores ABSENT, and is not shown.
"""

from collections.abc import Mapping, Sequence
from typing import TypeGuard

import numpy as np
import torch

from index.catalog.catalog import Catalog
from index.catalog.filters import EVERY
from index.catalog.identities import CaptionCounts, CaptionName
from index.catalog.text.statistics import CountedText, ScoredText, TextStatistics
from index.records import Caption, Image
from models.matching.encoded import EncodedImages
from models.text.request_words import subject_of
from service.cluster.messages import (
    FirstAnswer,
    Floats,
    ItemName,
    RankedName,
    ScoredPictures,
    SentTexts,
    ShardRanking,
    ShardState,
)
from service.search.candidates import Candidates
from service.search.gallery import Galleries, Gallery, OpenGallery
from service.search.local_gallery import compiled
from service.search.query import Accelerate, run_here
from service.search.requests import ImageSearchRequest, SearchRequest, TextSearchRequest
from service.search.results import PairExplanation
from service.storage.regions.records import PictureFeatures

ABSENT = -1e9  # below every score; exact in float32, so that a score can be compared with it by ==


class ShardSearch:
    """Answers routers. Thread-safe; scoring takes turns where `accelerate` puts it."""

    def __init__(self, catalog: Catalog, galleries: Galleries, accelerate: Accelerate = run_here) -> None:
        self._catalog, self._galleries, self._accelerate = catalog, galleries, accelerate

    def state(self, request: SearchRequest) -> ShardState:
        """The state of this shard for a query. Raises what `Galleries.open` does."""
        return self._state(request, self._gallery(request), self._statistics(request))

    def first_answer(self, request: SearchRequest, count: int, embedding: Floats, texts: SentTexts) -> FirstAnswer:
        """The first answer to a sentence: the state, and stage one's best pictures for a [1, E] embedding.

        The best `count` of these are scored with the one sentence. Where texts are searched, pictures whose text holds
        it are included, unless they are more than the shortlist.
        """
        opened = self._galleries.open(request)
        candidates = opened.gallery.nearest_pictures(torch.tensor(embedding), request, None)
        arrivals = self._catalog.identities.arrivals([*candidates.rows, *candidates.unfiltered])
        rows = list(dict.fromkeys([*candidates.rows[:count], *candidates.unfiltered[:count]]))
        scores = dict(zip(rows, self._scores(opened, rows, texts), strict=True))
        best = sorted(candidates.rows[:count], key=lambda row: -scores[row])[: request.k]
        statistics, counted = self._counted(request)
        return FirstAnswer(
            state=self._state(request, opened.gallery, statistics),
            ranking=ranking_of(candidates, arrivals),
            scores={arrivals[row][0]: score for row, score in scores.items()},
            images=list(self._catalog.identities.images([arrivals[row][0] for row in best]).values()),
            counted=counted,
        )

    def shortlist(self, request: SearchRequest, embedding: Floats, without: str | None = None) -> ShardRanking[str]:
        """Stage one's best pictures for a [1, E] embedding; the picture whose id is `without` is left out."""
        candidates = self._gallery(request).nearest_pictures(torch.tensor(embedding), request, without)
        return ranking_of(candidates, self._catalog.identities.arrivals([*candidates.rows, *candidates.unfiltered]))

    def caption_shortlist(self, request: SearchRequest, embedding: Floats) -> ShardRanking[CaptionName]:
        """Stage one's best captions for a [1, E] embedding."""
        candidates = self._gallery(request).nearest_captions(torch.tensor(embedding), request)
        captions = self._catalog.captions_at([*candidates.rows, *candidates.unfiltered])
        added_at = self._catalog.identities.added_at([caption.image_id for caption in captions])
        arrivals = {
            caption.slot: (CaptionName(caption.image_id, caption.text), added_at[caption.image_id])
            for caption in captions
            if caption.slot is not None
        }
        return ranking_of(candidates, arrivals)

    def text_matches(self, request: SearchRequest, everywhere: TextStatistics) -> list[ScoredText]:
        """Pictures whose text holds the question, scored by the statistics of all shards."""
        assert isinstance(request, TextSearchRequest), "texts are searched for words"
        condition = compiled(request) or EVERY
        return self._catalog.shared_texts.matches(subject_of(request.query), request.shortlist, condition, everywhere)

    def score_pictures(
        self,
        request: SearchRequest,
        image_ids: Sequence[str],
        texts: SentTexts,
        shown: int,
        everywhere: TextStatistics | None,
    ) -> ScoredPictures:
        """The score of each picture with the one sentence, and the records of the best `shown` of them.

        With statistics (`everywhere`), also the pictures whose text holds the sentence.
        """
        opened, slots = self._galleries.open(request), self._catalog.identities.slots(image_ids)
        rows = [slots[name] for name in image_ids if name in slots]
        scores_by_row = dict(zip(rows, self._scores(opened, rows, texts), strict=True))
        scores = spread(scores_by_row, [slots.get(name) for name in image_ids])
        best = [image_ids[n] for n in np.argsort(-scores, kind="stable")[:shown]]
        matches = [] if everywhere is None else self.text_matches(request, everywhere)
        return ScoredPictures(scores, list(self._catalog.identities.images(best).values()), matches)

    def score_captions(self, request: SearchRequest, names: Sequence[CaptionName], images: EncodedImages) -> Floats:
        """The score of each caption with the one picture."""
        gallery, captions = self._gallery(request), self._captions(names)
        slots = [None if (caption := captions.get(name)) is None else caption.slot for name in names]
        rows = [slot for slot in slots if slot is not None]
        scores = self._accelerate(gallery.caption_scorer(rows, images)) if rows else np.zeros(0, np.float32)
        return spread(dict(zip(rows, scores, strict=True)), slots)

    def images(self, image_ids: Sequence[str]) -> dict[str, Image]:
        """Id -> picture, of those that are shown."""
        return self._catalog.identities.images(image_ids)

    def captions(self, names: Sequence[CaptionName]) -> dict[CaptionName, Caption]:
        """CaptionName -> caption, of those that are shown."""
        captions = self._captions(names)
        return {name: captions[name] for name in names if name in captions}

    def explain_pictures(
        self, request: SearchRequest, image_ids: Sequence[str], texts: SentTexts, tokens: Sequence[str]
    ) -> dict[str, PairExplanation]:
        """The explanation of each picture's score with the one sentence, whose unpadded words are `tokens`, by id."""
        slots = self._catalog.identities.slots(image_ids)
        known = [name for name in image_ids if name in slots]
        opened = self._galleries.open(request)
        own_texts = texts.received().to(opened.model.matcher.device)
        explain = opened.gallery.picture_explainer([slots[name] for name in known], own_texts, tokens)
        return dict(zip(known, self._accelerate(explain), strict=True))

    def explain_captions(
        self,
        request: SearchRequest,
        names: Sequence[CaptionName],
        images: EncodedImages,
        picture: PictureFeatures,
    ) -> dict[CaptionName, PairExplanation]:
        """The explanation of each caption's score with the one picture, by name."""
        gallery, captions = self._gallery(request), self.captions(names)
        explanations = self._accelerate(gallery.caption_explainer(list(captions.values()), images, picture))
        return dict(zip(captions, explanations, strict=True))

    def features(self, image_id: str, extractor: str) -> PictureFeatures:
        """The regions that the extractor with this digest found in a stored picture. Raises NotFound where it has none,
        NotReady where they are yet to be found anew."""
        return self._galleries.features(image_id, extractor)

    def _gallery(self, request: SearchRequest) -> Gallery:
        return self._galleries.open(request).gallery

    def _scores(self, opened: OpenGallery, rows: Sequence[int], texts: SentTexts) -> Floats:
        if not rows:
            return np.zeros(0, np.float32)
        own_texts = texts.received().to(opened.model.matcher.device)
        return self._accelerate(opened.gallery.picture_scorer(rows, own_texts))

    def _statistics(self, request: SearchRequest) -> TextStatistics | None:
        return self._catalog.shared_texts.statistics(subject_of(request.query)) if searches_texts(request) else None

    def _counted(self, request: SearchRequest) -> tuple[TextStatistics | None, Sequence[CountedText] | None]:
        """The statistics of texts, and the pictures whose text holds the question; see SharedTexts.counted."""
        if not searches_texts(request):
            return None, ()
        return self._catalog.shared_texts.counted(
            subject_of(request.query), request.shortlist, compiled(request) or EVERY
        )

    def _state(self, request: SearchRequest, gallery: Gallery, texts: TextStatistics | None) -> ShardState:
        asks_captions = isinstance(request, ImageSearchRequest) and request.target == "captions"
        return ShardState(
            version=gallery.version,
            is_empty=gallery.is_empty,
            has_captions=asks_captions and gallery.has_captions,
            captions=self._catalog.identities.count_captions() if asks_captions else CaptionCounts(0, 0),
            texts=texts,
        )

    def _captions(self, names: Sequence[CaptionName]) -> dict[CaptionName, Caption]:
        return self._catalog.identities.captions(list(dict.fromkeys(name.image_id for name in names)))


def searches_texts(request: SearchRequest) -> TypeGuard[TextSearchRequest]:
    """Whether the texts of pictures are searched."""
    return isinstance(request, TextSearchRequest) and request.match != "pictures"


def ranking_of(candidates: Candidates, arrivals: Mapping[int, tuple[ItemName, float]]) -> ShardRanking[ItemName]:
    """Candidates as a ranking of names; `arrivals` has the name and the time of arrival of each slot."""

    def ranked(slots: Sequence[int], products: Floats) -> list[RankedName[ItemName]]:
        named = zip(slots, products.tolist(), strict=True)
        return [RankedName(arrivals[slot][0], product, arrivals[slot][1]) for slot, product in named]

    return ShardRanking(
        passing=ranked(candidates.rows, candidates.scores),
        unfiltered=ranked(candidates.unfiltered, candidates.unfiltered_scores),
        gallery=candidates.gallery,
    )


def spread(scores: Mapping[int, np.float32], slots: Sequence[int | None]) -> Floats:
    """The [slots] score of each slot; ABSENT for None."""
    return np.array([ABSENT if slot is None else scores[slot] for slot in slots], np.float32)
