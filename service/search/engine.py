"""Two-stage search: a shortlist by embeddings, reranked by a cross-attention model. No web in here.

The steps of a query: `begin` parses its words and fixes the model and one state of its gallery; the words are encoded;
the shortlist is taken; the candidates' records are scored; the best are looked up in the catalog. Only encoding and
scoring run where `accelerate` puts them, everything else in the caller's thread.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import numpy as np
import PIL.Image
import torch

from index.catalog.text.search import is_date
from models.batches import Regions
from models.extractors.base import Extractor
from models.matching.encoded import EncodedImages
from service.errors import FeaturesOnly, InvalidRequest
from service.search.fusion import best_pictures, explained_by_text
from service.search.gallery import Galleries
from service.search.query import Accelerate, AnyRequest, OpenQuery, RunningSearch, RunSearch, run_here, run_once
from service.search.query_costs import KnownModels, QueryCosts
from service.search.reading import reading_of, reading_of_question
from service.search.requests import ImageSearchRequest, TextSearchRequest
from service.search.results import (
    AnyRanked,
    ImageSearchResult,
    Origin,
    PairExplanation,
    RankedCaption,
    RankedPicture,
    Reading,
    TextSearchResult,
    newest_first,
)
from service.search.sentences import Encoded, KeptEncodings, encoding_of, verdict
from service.search.stages import (
    Term,
    caption_hits,
    combined_embedding,
    encoded_picture,
    picture_hits,
    scored_captions,
    scored_pictures,
    text_matches,
)
from service.search.stopwatch import Stopwatch
from service.search.wording.exclusions import EXCLUDED_WEIGHT
from service.search.wording.file_names import is_file_name
from service.search.wording.parsed_query import parse_query
from service.search.wording.query_notes import FoundCounts
from service.storage.regions.records import PictureFeatures, detected_features

PICTURE_WEIGHT = 0.4  # of the picture in a query with words, whose weight is 1: docs/lab/similar-pictures.md
NO_CAPTIONS = (
    "No captions are stored, so there is none to find for a picture: give some with the pictures, or to a stored one"
    " (PATCH /images/{image_id}, `regard edit --caption`). Pictures like it are found without."
)


class SearchEngine:
    """Answers queries, each from one state of its gallery."""

    def __init__(
        self, galleries: Galleries, models: KnownModels, extractor: Extractor, run: RunSearch = run_once
    ) -> None:
        """`models` holds every model that a gallery may name; `run` runs each search."""
        self._galleries = galleries
        self._models = models
        self._extractor = extractor
        self._run = run
        self._encodings = KeptEncodings()
        self.costs = QueryCosts(models, extractor, self._encodings)

    def begin(self, request: AnyRequest) -> OpenQuery[AnyRequest]:
        """The query of a request, with its words parsed and its model and gallery fixed.

        Raises UnknownModel, ViewNotBuilt or NotReady where the model cannot answer yet, InvalidRequest where it never
        can.
        """
        query = OpenQuery(request, *self._galleries.open(request), parse_query(request.query or ""))
        if request.min_probability is not None and query.model.header.calibration is None:
            raise InvalidRequest.field(
                "min_probability", "this model has no calibration, so it gives no probabilities; use min_score"
            )
        return query

    def text(self, query: OpenQuery[TextSearchRequest], accelerate: Accelerate = run_here) -> TextSearchResult:
        """Pictures that show what a sentence says, or whose text holds it; InvalidRequest where it holds no word."""
        return self._run(partial(self._text, accelerate=accelerate), query)

    def _text(self, query: OpenQuery[TextSearchRequest], accelerate: Accelerate) -> TextSearchResult:
        request, gallery = query.request, query.gallery
        running = RunningSearch(query, accelerate, Stopwatch("encode", "shortlist", "rerank", "text"))
        terms = self._terms(running) if query.needs_model else []
        candidates = scored_pictures(running, terms) if query.needs_model else None
        matches = text_matches(running)  # last: shards search their texts while they score
        matched: bool | None = bool(matches)  # a text match always counts
        matched_by_pictures = None
        if candidates is None:
            hits, left_out, terms = best_pictures(query, None, [], matches), 0, []
        else:
            hits, left_out = picture_hits(query, candidates, matches)
            matched_by_pictures = verdict(candidates, query.matcher, query.parsed)
            matched = matched or (False if asks_for_texts(query) else matched_by_pictures)
        return TextSearchResult(
            origin=origin(query),
            reading=reading_of_question(query, hits, matches),
            match=request.match,
            results=presented(running, hits, terms),
            left_out=left_out,
            matched=matched,
            matched_by_pictures=matched_by_pictures,
            shards=gallery.shards,
            timings_ms=running.watch.milliseconds,
        )

    def image(
        self,
        query: OpenQuery[ImageSearchRequest],
        picture: PictureFeatures,
        image_id: str | None = None,
        accelerate: Accelerate = run_here,
        watch: Stopwatch | None = None,
    ) -> ImageSearchResult[Any]:
        """Captions for a picture, or pictures like it that also show what the query's words say.

        `image_id` is that of a stored picture. InvalidRequest where the query holds no word.
        """
        search = partial(self._image, picture=picture, image_id=image_id, accelerate=accelerate, watch=watch)
        return self._run(search, query)

    def _image(
        self,
        query: OpenQuery[ImageSearchRequest],
        picture: PictureFeatures,
        image_id: str | None,
        accelerate: Accelerate,
        watch: Stopwatch | None,
    ) -> ImageSearchResult[Any]:
        running = RunningSearch(query, accelerate, watch or Stopwatch("detect", "encode", "shortlist", "rerank"))
        images, embedding = encoded_picture(running, picture)
        for_captions = query.request.target == "captions"
        if query.gallery.is_empty:
            return image_result(running, Reading(note=NO_CAPTIONS if for_captions else None))
        if not for_captions:
            return pictures_like(running, self._similarity_embedding(running, embedding), image_id)
        return captions_for(running, picture, images, embedding)

    def uploaded(
        self,
        query: OpenQuery[ImageSearchRequest],
        picture: PIL.Image.Image,
        size: tuple[int, int],
        accelerate: Accelerate = run_here,
    ) -> ImageSearchResult[Any]:
        """`image` for a picture that is not stored, whose full (width, height) is `size`.

        FeaturesOnly, or NotReady during a migration, where the model needs another detector.
        """
        self._galleries.check_detector_of(query.model)
        watch = Stopwatch("detect", "encode", "shortlist", "rerank")
        features = accelerate(watch.timed("detect", self.detect, picture, *size))
        return self.image(query, features, None, accelerate, watch)

    def like_stored(
        self, query: OpenQuery[ImageSearchRequest], image_id: str, accelerate: Accelerate = run_here
    ) -> ImageSearchResult[Any]:
        """`image` for a stored picture; NotFound where it has no regions, NotReady where these are yet to be found."""
        features = self._galleries.features(image_id, query.model.header.extractor_digest)
        return self.image(query, features, image_id, accelerate)

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

    def stored(self, image_id: str, extractor: str) -> PictureFeatures:
        """The regions that the extractor with this digest found in a stored picture.

        NotFound where it has none, NotReady where they are yet to be found anew.
        """
        return self._galleries.features(image_id, extractor)

    def forward_pass(self) -> None:
        """Score one sentence with one picture, to prove that the default model works; FloatingPointError if not."""
        matcher = self._models.default.matcher
        shape = (1, self._extractor.num_regions, matcher.feature_dim)
        images, _ = matcher.encode_regions(Regions(torch.ones(shape), torch.ones(shape[:2], dtype=torch.bool)))
        texts, _ = matcher.encode_sentences(["a picture"])
        score = float(matcher.score(images, texts)[0, 0])
        if not np.isfinite(score):
            raise FloatingPointError(f"{matcher.name} scores {score}")

    def _similarity_embedding(
        self, running: RunningSearch[ImageSearchRequest], embedding: torch.Tensor
    ) -> torch.Tensor:
        """The [1, E] embedding that finds pictures like one: the picture's, to which that of the words is added."""
        of_picture = running.query.matcher.similarity_query(embedding)
        if running.query.request.query is None:
            return of_picture
        of_words = combined_embedding(self._terms(running))
        if not running.query.parsed.wanted:  # what is ruled out weighs as beside words: the picture is what is wanted
            of_words = EXCLUDED_WEIGHT * of_words
        return of_words + PICTURE_WEIGHT * of_picture

    def _terms(self, running: RunningSearch[Any]) -> list[Term]:
        sentences = running.query.parsed.sentences
        return [Term(sentence, weight, *self._encoded(running, sentence)) for sentence, weight in sentences]

    def _encoded(self, running: RunningSearch[Any], sentence: str) -> Encoded:
        """The encoded sentence; InvalidRequest where it holds no word."""
        matcher = running.query.matcher
        if (cached := self._encodings.get(matcher, sentence)) is not None:
            return cached
        encoded = running.encode(encoding_of(matcher, sentence))
        self._encodings.put(matcher, sentence, encoded)
        return encoded


def origin(query: OpenQuery[Any]) -> Origin:
    """The origin of a result of the query."""
    request, model = query.request, query.model
    return Origin(model.name, model.header.digest, request.k, request.shortlist, query.index_version)


def ranked(hits: Sequence[AnyRanked]) -> list[AnyRanked]:
    """Hits ranked in their order, from 1."""
    return [hit if hit.rank == rank else replace(hit, rank=rank) for rank, hit in enumerate(hits, start=1)]


def asks_for_texts(query: OpenQuery[TextSearchRequest]) -> bool:
    """Whether texts alone can answer: no picture shows a date, or the name of its file."""
    subject = query.parsed.subject
    return query.request.match != "pictures" and (is_date(subject) or is_file_name(subject))


def presented(
    running: RunningSearch[TextSearchRequest], hits: list[RankedPicture], terms: Sequence[Term]
) -> list[RankedPicture]:
    """The best hits in the order of the request, ranked, with explanations where it asks for them; `terms` were scored,
    none where no picture was."""
    request = running.query.request
    if request.sort == "date":
        hits.sort(key=newest_first)
    if not request.explain:
        return ranked(hits)
    scored = [hit for hit in hits if hit.score is not None]
    explained = {hit.slot: hit for hit in explained_pictures(running, scored, terms)} if terms else {}
    return ranked([explained.get(hit.slot) or explained_by_text(hit, running.query.parsed.subject) for hit in hits])


def explained_pictures(
    running: RunningSearch[TextSearchRequest], hits: Sequence[RankedPicture], terms: Sequence[Term]
) -> list[RankedPicture]:
    """Pictures that the model scored, with explanations."""
    query = running.query
    slots = [hit.slot for hit in hits if hit.slot is not None]

    def explained(term: Term) -> list[PairExplanation]:
        tokens = query.matcher.words(term.sentence)
        each = running.rerank(query.gallery.picture_explainer(slots, term.texts, tokens))
        return each if term.weight > 0 else [explanation.counting_against(-term.weight) for explanation in each]

    of_pictures = zip(*(explained(term) for term in terms), strict=True)
    explanations = [reduce(PairExplanation.joined_with, each) for each in of_pictures]
    return [replace(hit, explanation=explanation) for hit, explanation in zip(hits, explanations, strict=True)]


def pictures_like(
    running: RunningSearch[ImageSearchRequest], embedding: torch.Tensor, image_id: str | None
) -> ImageSearchResult[RankedPicture]:
    """The pictures nearest to an embedding, and the query's words as the model reads them."""
    query = running.query
    request = query.request
    with running.watch.stage("shortlist"):
        candidates = query.gallery.nearest_pictures(embedding, request, without=image_id)
    hits, left_out = picture_hits(query, candidates)
    if request.sort == "date":
        hits.sort(key=newest_first)
    reading = Reading() if request.query is None else reading_of(query, FoundCounts(len(hits)))
    return image_result(running, reading, ranked(hits), left_out)


def captions_for(
    running: RunningSearch[ImageSearchRequest], picture: PictureFeatures, images: EncodedImages, embedding: torch.Tensor
) -> ImageSearchResult[RankedCaption]:
    """The captions for a picture."""
    query = running.query
    candidates = scored_captions(running, images, embedding)
    hits, left_out = caption_hits(query, candidates)
    if query.request.explain:
        explanations = running.rerank(query.gallery.caption_explainer(hits, images, picture))
        hits = [replace(hit, explanation=explanation) for hit, explanation in zip(hits, explanations, strict=True)]
    reading = Reading(note=None if query.gallery.has_captions else NO_CAPTIONS)
    return image_result(running, reading, ranked(hits), left_out, candidates.matched)


def image_result(
    running: RunningSearch[ImageSearchRequest],
    reading: Reading,
    hits: Sequence[AnyRanked] = (),
    left_out: int = 0,
    matched: bool | None = None,
) -> ImageSearchResult[AnyRanked]:
    """The result of a search with a picture, once all its stages are over."""
    query = running.query
    return ImageSearchResult(
        origin=origin(query),
        reading=reading,
        target=query.request.target,
        results=hits,
        left_out=left_out,
        matched=matched,
        shards=query.gallery.shards,
        timings_ms=running.watch.milliseconds,
    )
