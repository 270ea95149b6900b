"""Two-stage search: a shortlist by embeddings, reranked by a cross-attention model. No web in here.

A query goes: `begin` fixes the model and one state of its view; the question is encoded; the shortlist is taken; the
candidates' records are scored; the catalog says what the best of them are. Only encoding and scoring run where
`accelerate` puts them, everything else in the caller's thread.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import PIL.Image
import torch

from index.catalog import Catalog
from index.filters import Filter
from index.records import Caption, Mask
from index.text_search import TextMatch
from index.view import Counts, Snapshot
from models.batches import Regions
from models.extractors.base import Extractor
from models.matching.matcher import EncodedTexts, Matcher
from service.errors import FeaturesOnly, InvalidRequest, NotFound
from service.search.candidates import Candidates, scores_of
from service.search.fusion import best_pictures, explained_by_text
from service.search.model_views import ModelView, ModelViews, migrating
from service.search.pair_costs import PairCosts
from service.search.requests import ImageSearchRequest, SearchRequest, TextSearchRequest
from service.search.rerank import explain_captions, explain_pictures, score_captions, score_pictures
from service.search.results import (
    AnyRanked,
    ImageSearchResult,
    RankedCaption,
    RankedPicture,
    TextSearchResult,
    newest_first,
)
from service.search.sentences import encoded_sentence, verdict, words_of
from service.search.stopwatch import Stopwatch
from service.storage.region_records import PictureFeatures, RegionStore, detected_features
from service.storage.region_stores import RegionStores

T = TypeVar("T")
AnyRequest = TypeVar("AnyRequest", bound=SearchRequest)

DETECTION_COST = 1_000_000  # finding a picture's regions takes as long as scoring this many products
TEXT_COST = 10_000  # the same of a search in the text index
TYPICAL_WORDS = 14
NO_CAPTIONS = (
    "No captions are stored, so there is none to find for a picture: give some with the pictures, or to a stored one"
    " (PATCH /images/{image_id}, `regard edit --caption`). Pictures like it are found without."
)


class Accelerate(Protocol):
    """Runs work where the models are and returns its result."""

    def __call__(self, work: Callable[[], T], /) -> T:
        """The result of `work`."""


def run_here(work: Callable[[], T], /) -> T:
    """Runs work in the caller's thread."""
    return work()


@dataclass(frozen=True)
class Query(Generic[AnyRequest]):
    """A request, and the one state of the store that answers it."""

    request: AnyRequest
    model: ModelView
    snapshot: Snapshot | None  # None: the store is empty
    regions: RegionStore | None  # what the model's extractor found; None where there is nothing
    index_version: str  # changes whenever the model's answers may

    @property
    def matcher(self) -> Matcher:
        """The model's weights."""
        return self.model.matcher


class SearchEngine:
    """Answers queries over one catalog. A query sees one state of a view, and regions of its extractor, to its end."""

    def __init__(self, catalog: Catalog, regions: RegionStores, models: ModelViews, extractor: Extractor) -> None:
        self._catalog = catalog
        self._regions = regions
        self._models = models
        self._extractor = extractor
        self._captions_each = (-1, 1.0)
        self._pair_costs = PairCosts()

    def begin(self, request: AnyRequest) -> Query[AnyRequest]:
        """Fix what answers the request. UnknownModel, ViewNotBuilt, NotReady; InvalidRequest for what has no answer."""
        # The version is read before anything it speaks of: an answer may be newer than it says, never older.
        version = self._catalog.version()
        model, snapshot = self._models.resolve(request.model)
        if request.min_probability is not None and model.matcher.calibration is None:
            raise InvalidRequest.field(
                "min_probability", "this model has no calibration, so it gives no probabilities; use min_score"
            )
        pictures, captions = snapshot.counts if snapshot else Counts(0, 0)
        regions = self._regions.of(model.matcher.extractor_digest)
        return Query(request, model, snapshot, regions, f"{version}-{pictures}-{captions}")

    def measure_costs(self) -> None:
        """Measure how much each model costs a pair, where models run."""
        self._pair_costs.measure([model.matcher for model in self._models], self._extractor.num_regions)

    def cost(self, query: Query[Any], detect: bool = False) -> int:
        """Cost of a query for the accelerator: candidates x regions x words x the model's factor, and finding regions.

        With a filter a second shortlist is scored, the one that there is without it; the results that are explained
        are scored once more. InvalidRequest for a sentence without a word.
        """
        request, num_words = query.request, TYPICAL_WORDS
        candidates = request.shortlist * (2 if request.filter else 1) + request.explain * request.k
        if isinstance(request, TextSearchRequest):
            if request.match == "text":
                return TEXT_COST
            num_words = len(words_of(query.matcher, request.query))
        elif request.target == "images":  # stage one alone
            candidates = 1
        pairs = candidates * self._extractor.num_regions * num_words
        return int(pairs * self._pair_costs.weight(query.matcher)) + detect * DETECTION_COST

    def text(self, query: Query[TextSearchRequest], accelerate: Accelerate = run_here) -> TextSearchResult:
        """Pictures that show what a sentence says, or whose text holds it; InvalidRequest where it holds no word."""
        request, matcher, snapshot = query.request, query.matcher, query.snapshot
        watch = Stopwatch("encode", "shortlist", "rerank", "text")
        texts, read = None, dict[str, Any]()
        if request.match != "text":
            texts, embedding = accelerate(watch.timed("encode", encoded_sentence, matcher, request.query))
            read["unknown_words"] = matcher.unknown_words(request.query)
            read["read_as"] = matcher.near_words(request.query)
        found = partial(
            TextSearchResult,
            **origin(query),
            **read,
            query=request.query,
            match=request.match,
            timings_ms=watch.milliseconds,
        )
        with watch.stage("text"):
            matches = self._text_matches(request)
        if texts is None or snapshot is None:
            hits = best_pictures(request, None, [], matches, self._catalog.images_at)
            return found(
                results=self._presented(hits, None, query, accelerate, watch), matched=True if matches else None
            )
        with watch.stage("shortlist"):
            masks = self._picture_masks(query)
            candidates = Candidates.nearest(snapshot.images, embedding, request.shortlist, *masks)
        meaning = matcher.calibration
        rows = candidates.rows_to_score if meaning else candidates.rows
        scores = accelerate(watch.timed("rerank", score_pictures, matcher, snapshot, rows, texts))
        if meaning:
            candidates = candidates.rescored(scores, meaning.text, match_test=meaning.text_match)
        else:
            candidates = candidates.rescored(scores, None)
        hits, left_out = self._picture_hits(request, candidates, matches)
        matched = verdict(candidates, matcher, request.query, bool(matches))
        return found(results=self._presented(hits, texts, query, accelerate, watch), left_out=left_out, matched=matched)

    def image(
        self,
        query: Query[ImageSearchRequest],
        picture: PictureFeatures,
        slot: int | None = None,
        accelerate: Accelerate = run_here,
        watch: Stopwatch | None = None,
    ) -> ImageSearchResult[Any]:
        """Captions for a picture, or pictures like it; `slot` is its own where it is a stored one."""
        request, matcher, snapshot = query.request, query.matcher, query.snapshot
        watch = watch or Stopwatch("detect", "encode", "shortlist", "rerank")
        images, embedding = accelerate(watch.timed("encode", matcher.encode_regions, picture.as_batch()))
        found = partial(ImageSearchResult, **origin(query), target=request.target, timings_ms=watch.milliseconds)
        if snapshot is None:
            return found(note=None if request.target == "images" else NO_CAPTIONS)
        if request.target == "images":
            with watch.stage("shortlist"):
                visible, passing = self._picture_masks(query)
                allowed = _without(visible if passing is None else passing, [] if slot is None else [slot])
                asked = matcher.similarity_query(embedding)
                alike = Candidates.nearest(snapshot.images, asked, request.shortlist, allowed)
            hits, left_out = self._picture_hits(request, alike)
            return found(results=ranked(hits), left_out=left_out)
        with watch.stage("shortlist"):
            masks = self._catalog.visible_captions(), self._passing_captions(request)
            candidates = Candidates.nearest(snapshot.captions, embedding, request.shortlist, *masks)
        meaning = matcher.calibration
        rows = candidates.rows_to_score if meaning else candidates.rows
        scores = accelerate(watch.timed("rerank", score_captions, matcher, snapshot, rows, images))
        if meaning:
            candidates = candidates.rescored(scores, meaning.image, self._captions_a_picture(), meaning.image_match)
        else:
            candidates = candidates.rescored(scores, None)
        captions, left_out = self._caption_hits(request, candidates)
        if request.explain:
            explain = watch.timed("rerank", explain_captions, matcher, snapshot, captions, images, picture)
            captions = [replace(hit, explanation=why) for hit, why in zip(captions, accelerate(explain), strict=True)]
        note = None if masks[0].any() else NO_CAPTIONS
        return found(results=ranked(captions), left_out=left_out, matched=candidates.matched, note=note)

    def uploaded(
        self,
        query: Query[ImageSearchRequest],
        picture: PIL.Image.Image,
        size: tuple[int, int],
        accelerate: Accelerate = run_here,
    ) -> ImageSearchResult[Any]:
        """`image` for a picture that is not stored, whose full (width, height) is `size`.

        FeaturesOnly, or NotReady during a migration, where the model reads what another detector finds.
        """
        self._check_detector_of(query)
        watch = Stopwatch("detect", "encode", "shortlist", "rerank")
        features = accelerate(watch.timed("detect", self.detect, picture, *size))
        return self.image(query, features, None, accelerate, watch)

    def like_stored(
        self, query: Query[ImageSearchRequest], image_id: str, accelerate: Accelerate = run_here
    ) -> ImageSearchResult[Any]:
        """`image` for a stored picture; NotFound where it has no regions, NotReady where these are yet to be found."""
        return self.image(query, *self.stored(image_id, query.matcher.extractor_digest), accelerate)

    def detect(self, picture: PIL.Image.Image, width: int, height: int) -> PictureFeatures:
        """The regions of a picture that is not stored, with boxes at its full size `width` x `height`.

        FeaturesOnly where nothing here finds regions.
        """
        if not self._extractor.accepts_pictures:
            raise FeaturesOnly(
                f"No regions can be found in a picture here: the data directory holds features of"
                f" {self._extractor.digest}, made elsewhere. Ask with the image_id of a stored one."
            )
        scale = width / picture.width, height / picture.height
        return detected_features(self._extractor.extract([picture]), scale, self._extractor.labels)

    def _check_detector_of(self, query: Query[Any]) -> None:
        """FeaturesOnly, or NotReady, unless the model reads what the detector in service finds."""
        made = query.matcher.extractor_digest
        if made == self._extractor.digest:
            return
        if (progress := self._regions.progress()) is None:
            raise FeaturesOnly(
                f"{query.model.name} reads features of {made}, which nothing here finds in a picture. Ask with the"
                " image_id of a stored one, or another model."
            )
        said = f"{query.model.name} reads what the former detector found, which is not there for an uploaded picture"
        raise migrating(progress, f"{said}; ask with an image_id, ask another model, or wait")

    def stored(self, image_id: str, extractor: str | None = None) -> tuple[PictureFeatures, int]:
        """The regions of a stored picture, and its slot; of the extractor in service, unless another digest is given.

        NotFound where it has none, NotReady where they are yet to be found anew.
        """
        image = self._catalog.image(image_id)
        if image is None or image.state == "deleted":
            raise NotFound(f"There is no picture {image_id}.")
        if image.slot is None or image.state != "ready":
            raise NotFound(f"Picture {image_id} has no regions: it is {image.state}.")
        extractor = extractor or self._extractor.digest
        store = self._regions.of(extractor)
        if store is None or not self._regions.has_record(extractor, image.slot):
            if (progress := self._regions.progress()) is not None:
                raise migrating(progress, f"Picture {image_id} waits for its regions")
            raise NotFound(f"Picture {image_id} has no regions that this model reads.")
        features = store.features(image.slot)
        if not features.mask.any():
            raise NotFound(f"Picture {image_id} has no regions: it could not be read when they were found anew.")
        return features, image.slot

    def forward_pass(self) -> None:
        """Score one sentence with one picture, to prove that the default model works."""
        matcher = self._models.default.matcher
        shape = (1, self._extractor.num_regions, matcher.feature_dim)
        images, _ = matcher.encode_regions(Regions(torch.ones(shape), torch.ones(shape[:2], dtype=torch.bool)))
        texts, _ = matcher.encode_sentences(["a picture"])
        score = float(matcher.score(images, texts)[0, 0])
        assert np.isfinite(score), f"{matcher.name} scores {score}"

    def _picture_masks(self, query: Query[Any]) -> tuple[Mask, Mask | None]:
        """[slots] True for visible pictures, and for those that pass the request's filter, None without one.

        Pictures without any region are left out of both: they cannot be scored.
        """
        blank = self._catalog.blank_slots(query.matcher.extractor_digest)
        given = query.request.filter
        passing = self._catalog.matching(given.compiled()) if given else None
        return _without(self._catalog.visible(), blank), None if passing is None else _without(passing, blank)

    def _passing_captions(self, request: SearchRequest) -> Mask | None:
        """[caption slots] True for captions of visible pictures that pass the filter; None without a filter."""
        return self._catalog.matching_captions(request.filter.compiled()) if request.filter else None

    def _captions_a_picture(self) -> float:
        """How many captions a captioned picture has; counted anew when the catalog has changed."""
        version = self._catalog.version()
        if self._captions_each[0] != version:
            self._captions_each = version, self._catalog.captions_per_picture()
        return self._captions_each[1]

    def _text_matches(self, request: TextSearchRequest) -> list[TextMatch]:
        """Pictures whose text holds the question, as many as the request hands to the reranker."""
        if request.match == "pictures":
            return []
        passing = request.filter.compiled() if request.filter else Filter()
        return self._catalog.texts.matches(request.query, request.shortlist, passing)

    def _picture_hits(
        self, request: SearchRequest, candidates: Candidates, matches: Sequence[TextMatch] = ()
    ) -> tuple[list[RankedPicture], int]:
        """The best k pictures, and how many candidates the request's limits left out."""
        order = candidates.passing(request)
        hits = best_pictures(request, candidates, order, matches, self._catalog.images_at)
        return hits, len(candidates.rows) - len(order)

    def _caption_hits(self, request: SearchRequest, candidates: Candidates) -> tuple[list[RankedCaption], int]:
        """The best k captions, and how many candidates the request's limits left out."""
        order = candidates.passing(request)
        hits = [
            RankedCaption(**vars(caption), **scores_of(candidates, n))
            for n, caption in candidates.best(order, request.k, self._visible_captions_at)
        ]
        return hits, len(candidates.rows) - len(order)

    def _visible_captions_at(self, rows: Sequence[int]) -> list[Caption | None]:
        return [None if caption.deleted else caption for caption in self._catalog.captions_at(rows)]

    def _presented(
        self,
        hits: list[RankedPicture],
        texts: EncodedTexts | None,
        query: Query[TextSearchRequest],
        accelerate: Accelerate,
        watch: Stopwatch,
    ) -> list[RankedPicture]:
        """The best hits in the order of the request, ranked, with explanations where it asks for them."""
        if query.request.sort == "date":
            hits.sort(key=newest_first)
        if not query.request.explain:
            return ranked(hits)
        scored = [hit for hit in hits if hit.score is not None]
        explained = {}
        if texts is not None:
            explained = {hit.slot: hit for hit in self._explained(scored, texts, query, accelerate, watch)}
        return ranked([explained.get(hit.slot) or explained_by_text(hit, query.request.query) for hit in hits])

    def _explained(
        self,
        hits: Sequence[RankedPicture],
        texts: EncodedTexts,
        query: Query[TextSearchRequest],
        accelerate: Accelerate,
        watch: Stopwatch,
    ) -> list[RankedPicture]:
        assert query.snapshot is not None
        assert query.regions is not None
        slots = [hit.slot for hit in hits if hit.slot is not None]
        pictures = [query.regions.regions(slot) for slot in slots]
        tokens = query.matcher.words(query.request.query)
        explain = watch.timed("rerank", explain_pictures, query.matcher, query.snapshot, slots, texts, tokens, pictures)
        return [replace(hit, explanation=why) for hit, why in zip(hits, accelerate(explain), strict=True)]


def origin(query: Query[Any]) -> dict[str, Any]:
    """The part of a result that says what it came from."""
    return {
        "model": query.model.name,
        "model_digest": query.matcher.digest,
        "k": query.request.k,
        "shortlist": query.request.shortlist,
        "index_version": query.index_version,
    }


def ranked(hits: Sequence[AnyRanked]) -> list[AnyRanked]:
    """Hits with the ranks of their order."""
    return [replace(hit, rank=rank) for rank, hit in enumerate(hits, start=1)]


def _without(allowed: Mask, slots: Sequence[int]) -> Mask:
    """The mask with these slots, as far as it reaches, set to False."""
    left = allowed.copy()
    left[[slot for slot in slots if slot < len(left)]] = False
    return left
