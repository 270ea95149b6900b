"""Two-stage search: a shortlist by embeddings, reranked by a cross-attention model. No web in here."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import PIL.Image
import torch

from index.catalog import Catalog
from index.records import Caption, Image
from index.view import View
from models.batches import Regions
from models.extractors.base import Extractor
from service.errors import FeaturesOnly, InvalidRequest, NotFound
from service.search.candidates import Candidates, Mask
from service.search.model_views import Models, Served
from service.search.rerank import explain_captions, explain_pictures, score_captions, score_pictures
from service.search.types import CaptionFound, Hit, ImageQuestion, Outcome, Question, TextQuestion
from service.storage.region_records import Found, StoredRegions, found_in

DETECTION_COST = 1_000_000  # finding a picture's regions takes as long as scoring this many products
TYPICAL_WORDS = 14


class Stopwatch:
    """Milliseconds by stage; those that were never reached took none."""

    def __init__(self, *stages: str) -> None:
        self.milliseconds = dict.fromkeys(stages, 0.0)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Note the time spent inside as that of `name`."""
        started = time.perf_counter()
        yield
        self.milliseconds[name] = (time.perf_counter() - started) * 1000


class Search:
    """Answers questions over one catalog. A query sees one state of a view from beginning to end."""

    def __init__(self, catalog: Catalog, regions: StoredRegions, models: Models, extractor: Extractor) -> None:
        self._catalog = catalog
        self._regions = regions
        self._models = models
        self._extractor = extractor
        self._captions_each = (-1, 1.0)

    def cost(self, shortlist: int, num_words: int = TYPICAL_WORDS, detect: bool = False) -> int:
        """What a query costs the accelerator: candidates x regions x words, and finding regions."""
        return shortlist * self._extractor.num_regions * num_words + detect * DETECTION_COST

    def index_version(self, model: str | None) -> str:
        """Changes whenever the model's answers may."""
        _, view = self._models.searchable(model, self._catalog)
        return self._version(view)

    def uploaded(self, question: ImageQuestion, picture: PIL.Image.Image, width: int, height: int) -> Outcome:
        """`image` for a picture that is not stored, `width` x `height` at its full size."""
        watch = Stopwatch("detect")
        with watch.stage("detect"):
            found = self.detect(picture, width, height)
        outcome = self.image(question, found)
        return replace(outcome, milliseconds=outcome.milliseconds | watch.milliseconds)

    def like_stored(self, question: ImageQuestion, image_id: str) -> Outcome:
        """`image` for a stored picture; NotFound where it has no regions (yet)."""
        return self.image(question, *self.stored(image_id))

    def detect(self, picture: PIL.Image.Image, width: int, height: int) -> Found:
        """The regions of a picture that is not stored, with boxes at its full size `width` x `height`.

        FeaturesOnly where nothing here finds regions.
        """
        if not self._extractor.accepts_pictures:
            raise FeaturesOnly(
                f"No regions can be found in a picture here: the data directory holds features of"
                f" {self._extractor.digest}, made elsewhere. Ask with the image_id of a stored one."
            )
        scale = width / picture.width, height / picture.height
        return found_in(self._extractor.extract([picture]), self._extractor.labels, scale)

    def stored(self, image_id: str) -> tuple[Found, int]:
        """The regions of a stored picture, and its slot; NotFound where it has none (yet)."""
        image = self._catalog.image(image_id)
        if image is None or image.state == "deleted":
            raise NotFound(f"There is no picture {image_id}.")
        if image.slot is None or image.state != "ready":
            raise NotFound(f"Picture {image_id} has no regions: it is {image.state}.")
        return self._regions.found(image.slot), image.slot

    def forward_pass(self) -> None:
        """Score one sentence with one picture, to prove that the default model works."""
        matcher = self._models.default.matcher
        shape = (1, self._extractor.num_regions, self._extractor.feature_dim)
        images, _ = matcher.encode_regions(Regions(torch.ones(shape), torch.ones(shape[:2], dtype=torch.bool)))
        words, _ = matcher.encode_sentences(["a picture"])
        score = float(matcher.score(images, words)[0, 0])
        assert np.isfinite(score), f"{matcher.name} scores {score}"

    def text(self, question: TextQuestion) -> Outcome:
        """Pictures that show what a sentence says."""
        served, view, outcome, watch = self._begin(question)
        matcher = served.matcher
        with watch.stage("encode"):
            try:
                words, embedding = matcher.encode_sentences([question.text])
            except ValueError as fault:
                raise InvalidRequest.field("query", str(fault)) from fault
        outcome = replace(outcome, unknown_words=matcher.unknown_words(question.text))
        if view is None:
            return outcome
        with watch.stage("shortlist"):
            shortlist = Candidates.shortlisted(view.images, embedding, question.shortlist, self._pictures(question))
        with watch.stage("rerank"):
            scores = score_pictures(matcher, view, shortlist.rows, words)
            found = shortlist.scored(scores, matcher.calibration.text if matcher.calibration else None)
            hits, left_out = self._hits(question, found)
            if question.sort == "date":
                hits.sort(key=_newest_first)
            if question.explain:
                slots = _slots(hits)
                seen = [self._regions.seen(slot) for slot in slots]
                reasons = explain_pictures(matcher, view, slots, words, matcher.words(question.text), seen)
                hits = [replace(hit, explained=why) for hit, why in zip(hits, reasons, strict=True)]
        return replace(outcome, hits=hits, left_out=left_out)

    def image(self, question: ImageQuestion, asked: Found, slot: int | None = None) -> Outcome:
        """Captions for a picture, or pictures like it; `slot` is its own where it is a stored one."""
        served, view, outcome, watch = self._begin(question)
        matcher = served.matcher
        with watch.stage("encode"):
            images, embedding = matcher.encode_regions(asked.as_batch())
        if view is None:
            return outcome
        if question.target == "images":
            with watch.stage("shortlist"):
                allowed = self._pictures(question).copy()
                if slot is not None and slot < len(allowed):
                    allowed[slot] = False
                alike = Candidates.shortlisted(view.images, embedding, question.shortlist, allowed)
            hits, left_out = self._hits(question, alike)
            return replace(outcome, hits=hits, left_out=left_out)
        with watch.stage("shortlist"):
            shortlist = Candidates.shortlisted(view.captions, embedding, question.shortlist, self._captions(question))
        with watch.stage("rerank"):
            scores = score_captions(matcher, view, shortlist.rows, images)
            evidence = matcher.calibration.image if matcher.calibration else None
            candidates = shortlist.scored(scores, evidence, self._captions_a_picture() if evidence else 1.0)
            found, left_out = self._captions_found(question, candidates)
            if question.explain:
                reasons = explain_captions(matcher, view, [one.caption for one in found], images, asked)
                found = [replace(one, explained=why) for one, why in zip(found, reasons, strict=True)]
        return replace(outcome, captions=found, left_out=left_out)

    def _begin(self, question: Question) -> tuple[Served, View | None, Outcome, Stopwatch]:
        served, view = self._models.searchable(question.model, self._catalog)
        watch = Stopwatch("encode", "shortlist", "rerank")
        # The version is read before anything it speaks of: an answer may be newer than it says, never older.
        outcome = Outcome(
            model=served.name,
            digest=served.matcher.digest,
            index_version=self._version(view),
            milliseconds=watch.milliseconds,
        )
        return served, view, outcome, watch

    def _version(self, view: View | None) -> str:
        pictures, captions = view.counts if view else (0, 0)
        return f"{self._catalog.version()}-{pictures}-{captions}"

    def _pictures(self, question: Question) -> Mask:
        return self._catalog.matching(question.filter) if question.filter else self._catalog.visible()

    def _captions(self, question: Question) -> Mask:
        if question.filter:
            return self._catalog.matching_captions(question.filter)
        return self._catalog.visible_captions()

    def _captions_a_picture(self) -> float:
        """How many captions a captioned picture has; counted anew when the catalog has changed."""
        version = self._catalog.version()
        if self._captions_each[0] != version:
            self._captions_each = version, self._catalog.captions_each()
        return self._captions_each[1]

    def _hits(self, question: Question, found: Candidates) -> tuple[list[Hit], int]:
        """The pictures to answer with, and how many the question's limits left out."""
        order = found.passing(question)
        hits = [
            Hit(image=image, score=float(found.scores[n]), probability=found.probability(n), shortlist_rank=n + 1)
            for n, image in found.best(order, question.k, self._catalog.images_at)
        ]
        return hits, len(found.rows) - len(order)

    def _captions_found(self, question: Question, found: Candidates) -> tuple[list[CaptionFound], int]:
        """The captions to answer with, likewise."""
        order = found.passing(question)
        captions = [
            CaptionFound(
                caption=caption,
                score=float(found.scores[n]),
                probability=found.probability(n),
                shortlist_rank=n + 1,
            )
            for n, caption in found.best(order, question.k, self._captions_at)
        ]
        return captions, len(found.rows) - len(order)

    def _captions_at(self, rows: Sequence[int]) -> list[Caption | None]:
        return [None if caption.deleted else caption for caption in self._catalog.captions_at(rows)]


def _slots(hits: Sequence[Hit]) -> list[int]:
    return [hit.image.slot for hit in hits if hit.image.slot is not None]


def _newest_first(hit: Hit) -> tuple[bool, float, float]:
    image: Image = hit.image
    return image.taken_at is None, -(image.taken_at or 0.0), -image.added_at
