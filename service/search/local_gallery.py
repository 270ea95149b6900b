"""The gallery of one data directory, whose rows are the slots of its pictures and captions."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain

import torch

from index.catalog.catalog import Catalog
from index.catalog.filters import EVERY, Filter
from index.catalog.text.named_tags import Tag, named_tags
from index.catalog.text.search import TextMatch, content_words
from index.records import Caption, Image, Mask
from index.views.shared_searches import SharedSearches
from index.views.view import Snapshot
from index.views.view_manifest import Counts
from index.views.view_stores import CAPTIONS
from models.extractors.base import Extractor
from models.matching.encoded import EncodedImages, EncodedTexts
from service.errors import FeaturesOnly, NotFound, NotReady
from service.search.candidates import NO_SCORES, Candidates
from service.search.contentless_pictures import ContentlessPictures
from service.search.gallery import OpenGallery
from service.search.model_views import ModelView, ModelViews, migrating
from service.search.requests import SearchRequest, TextSearchRequest
from service.search.results import PairExplanation, ShardCounts
from service.search.scoring.joint_scoring import StoredPairs, joint_scorer
from service.search.scoring.rerank import RowNumbers, Scores, explain_captions, explain_pictures, score_captions
from service.search.version_cache import VersionCache
from service.storage.regions.records import PictureFeatures, RegionStore
from service.storage.regions.stores import RegionStores

KEPT_LETTERS = 4_000_000  # of descriptions: thousands of typical pictures, in some twenty megabytes
KEPT_MASKS = 4  # a byte for each picture
KEPT_WORDS = 10_000  # each with a tag or two at most; looking up a common caption word takes milliseconds
LETTERS_OF_THE_REST = 500
NO_CANDIDATES = Candidates(rows=[], scores=NO_SCORES, gallery=0)


class LocalGallery:
    """One state of a view, with the catalog and the regions beside it."""

    scores_elsewhere = False
    shards: ShardCounts | None = None

    def __init__(
        self,
        galleries: "LocalGalleries",
        model: ModelView,
        snapshot: Snapshot | None,
        regions: RegionStore | None,
        catalog_version: int,
    ) -> None:
        """`snapshot` is None where the store is empty or no view is needed; `regions` are those of the model's
        extractor, None where there are none."""
        pictures, captions = snapshot.counts if snapshot else Counts(0, 0)
        edition = snapshot.manifest.edition if snapshot else "0"  # a rebuilt view has other rows
        self.version = f"{catalog_version}-{pictures}-{captions}-{edition}"
        self._catalog_version = catalog_version
        self._galleries, self._catalog = galleries, galleries.catalog
        self._model, self._snapshot, self._regions = model, snapshot, regions

    @property
    def is_empty(self) -> bool:
        """Whether no picture was ever encoded for the model."""
        return self._snapshot is None

    @property
    def num_missing(self) -> int:
        """The number of pictures that wait for their regions, or whose regions are not in the view yet."""
        visible, _ = self._picture_masks(None)
        committed = max(0, len(visible) - (0 if self._snapshot is None else self._snapshot.counts.images))
        return committed + self._galleries.num_queued(self._catalog_version)

    @property
    def has_captions(self) -> bool:
        """Whether there is a caption to be found."""
        return bool(self._visible_captions().any())

    def nearest_pictures(
        self, embedding: torch.Tensor, request: SearchRequest, without: str | None, texts: EncodedTexts | None = None
    ) -> Candidates:
        """The shortlist of a [1, E] embedding; the picture whose id is `without` is left out."""
        if self._snapshot is None:
            return NO_CANDIDATES
        visible, passing = self._picture_masks(compiled(request))
        excluded = None if without is None else self._catalog.image(without)
        slots = [] if excluded is None or excluded.slot is None else [excluded.slot]

        def allowed(mask: Mask) -> Mask:
            shown = self._showing(mask) if isinstance(request, TextSearchRequest) else mask
            return _without(shown, slots) if slots else shown

        visible, passing = allowed(visible), None if passing is None else allowed(passing)
        search = self._galleries.searches.search
        return Candidates.nearest(self._snapshot.images, embedding, request.shortlist, visible, passing, search)

    def nearest_captions(self, embedding: torch.Tensor, request: SearchRequest) -> Candidates:
        """The shortlist of captions for a [1, E] embedding."""
        if self._snapshot is None:
            return NO_CANDIDATES
        condition = compiled(request)
        passing = None if condition is None else self._catalog.matching_captions(condition)
        visible = self._visible_captions()
        search = self._galleries.searches.search
        return Candidates.nearest(self._snapshot.captions, embedding, request.shortlist, visible, passing, search)

    def text_matches(self, request: TextSearchRequest, subject: str) -> list[TextMatch]:
        """Pictures whose text holds the query's subject, as many as the request hands to the reranker."""
        return self._catalog.texts.matches(subject, request.shortlist, compiled(request) or EVERY)

    def named_tags(self, question: str) -> list[Tag]:
        """Tags that the question names beside other words."""
        words, look_up = content_words(question), self._catalog.texts.tags_beside
        tags = self._galleries.tags.get_or_read(self._catalog_version, words, look_up)
        return named_tags(question, chain.from_iterable(tags.values()))

    def may_hold(self, condition: Filter) -> bool:
        """Whether a picture passes the filter."""
        return self._catalog.any_matching(condition)

    def picture_scorer(self, rows: RowNumbers, texts: EncodedTexts) -> Callable[[], Scores]:
        """Work that gives the [len(rows)] score of each picture with the one sentence, jointly with other queries."""
        return joint_scorer(StoredPairs(self._model.matcher, self._state, rows, texts))

    first_scorer = picture_scorer

    def caption_scorer(self, rows: RowNumbers, images: EncodedImages) -> Callable[[], Scores]:
        """Work that gives the [len(rows)] score of each caption with the one picture."""
        return partial(score_captions, self._model.matcher, self._state, rows, images)

    def images_at(self, rows: Sequence[int]) -> list[Image | None]:
        """The pictures of rows; None where one is no longer shown."""

        def read(slots: list[int]) -> dict[int, Image]:
            images = zip(slots, self._catalog.images_at(slots), strict=True)
            return {slot: image for slot, image in images if image is not None}

        # As of now: pictures deleted since the search began are left out.
        pictures = self._galleries.pictures.get_or_read(self._catalog.version(), rows, read)
        return [pictures.get(row) for row in rows]

    def captions_at(self, rows: Sequence[int]) -> list[Caption | None]:
        """The captions of rows; None where one is no longer shown."""
        return [None if caption.deleted else caption for caption in self._catalog.captions_at(rows)]

    def picture_explainer(
        self, rows: Sequence[int], texts: EncodedTexts, tokens: Sequence[str]
    ) -> Callable[[], list[PairExplanation]]:
        """Work that explains the score of each picture with the one sentence, whose unpadded words are `tokens`.

        NotReady where the regions cannot be read.
        """
        if self._regions is None:
            raise NotReady(
                "The regions that this model's view was made of cannot be read, which the log of the service explains:"
                " ask without `explain`."
            )
        pictures = [self._regions.regions(slot) for slot in rows]
        return partial(explain_pictures, self._model.matcher, self._state, rows, texts, tokens, pictures)

    def caption_explainer(
        self, captions: Sequence[Caption], images: EncodedImages, picture: PictureFeatures
    ) -> Callable[[], list[PairExplanation]]:
        """Work that explains the score of each caption with the one picture."""
        return partial(explain_captions, self._model.matcher, self._state, captions, images, picture)

    def captions_per_picture(self) -> float:
        """The mean number of captions of a captioned picture."""
        return self._galleries.captions_per_picture()

    @property
    def _state(self) -> Snapshot:
        assert self._snapshot is not None, "an empty gallery has no candidates"
        return self._snapshot

    def _picture_masks(self, condition: Filter | None) -> tuple[Mask, Mask | None]:
        """[slots] masks of the visible pictures, and of those that pass the filter, None without one.

        Pictures without a region are in neither: they cannot be scored.
        """
        extractor = self._model.header.extractor_digest

        def without_blank(mask: Mask) -> Mask:
            return _without(mask, self._catalog.region_stores.blank_slots(extractor))

        visible = self._galleries.visible.get_or_read_one(
            self._catalog_version, extractor, lambda: _shared(without_blank(self._catalog.visible()))
        )
        return visible, None if condition is None else without_blank(self._catalog.matching(condition))

    def _showing(self, allowed: Mask) -> Mask:
        """The mask without contentless pictures, unless it has no others."""
        digest, num_slots = self._model.header.digest, self._state.counts.images
        edition = f"{self._state.manifest.edition}-{self._galleries.hash_rounds(self._catalog_version)}"
        slots = self._galleries.contentless.slots(digest, self._regions, num_slots, edition)
        showing = _without(allowed, slots) if slots else allowed
        return showing if showing[:num_slots].any() else allowed

    def _visible_captions(self) -> Mask:
        """[caption slots] mask of the captions that are shown."""
        return self._galleries.visible.get_or_read_one(
            self._catalog_version, CAPTIONS, lambda: _shared(self._catalog.visible_captions())
        )


class LocalGalleries:
    """The galleries of one data directory."""

    def __init__(self, catalog: Catalog, regions: RegionStores, models: ModelViews, extractor: Extractor) -> None:
        self.catalog, self.searches = catalog, SharedSearches()
        self.pictures: VersionCache[int, Image] = VersionCache(KEPT_LETTERS, letters_of)
        self.visible: VersionCache[str, Mask] = VersionCache(KEPT_MASKS)
        self.tags: VersionCache[str, list[Tag]] = VersionCache(KEPT_WORDS)
        self.contentless = ContentlessPictures(catalog.hashes)
        self._counts: VersionCache[str, int] = VersionCache(2)
        self._regions, self._models, self._extractor = regions, models, extractor

    def num_queued(self, version: int) -> int:
        """The number of pictures that wait for their regions, at a version of the catalog."""
        return self._counts.get_or_read_one(version, "queued", self.catalog.queue.num_waiting)

    def hash_rounds(self, version: int) -> int:
        """The number of rounds that computed missing hashes, at a version of the catalog."""
        return self._counts.get_or_read_one(version, "hash rounds", self.catalog.hashes.rounds)

    def open(self, request: SearchRequest) -> OpenGallery:
        """The gallery of the request's model. Raises UnknownModel where there is none, ViewNotBuilt or NotReady where
        it is needed and cannot answer yet."""
        # The version is read first: what is read after it may be newer, never older.
        version = self.catalog.version()
        model, snapshot = self._models.resolve(request.model, needs_view=request.needs_model)
        regions = self._regions.of(model.header.extractor_digest)
        return OpenGallery(model, LocalGallery(self, model, snapshot, regions, version))

    def features(self, image_id: str, extractor: str) -> PictureFeatures:
        """The regions that the extractor with this digest found in a stored picture.

        NotFound where it has no regions, NotReady where these are yet to be found anew.
        """
        image = self.catalog.image(image_id)
        if image is None or image.state == "deleted":
            raise NotFound.picture(image_id)
        if image.slot is None or image.state != "ready":
            raise NotFound(f"Picture {image_id} has no regions: it is {image.state}.")
        store = self._regions.of(extractor)
        if store is None or not self._regions.has_record(extractor, image.slot):
            if (progress := self._regions.progress()) is not None:
                raise migrating(progress, f"Picture {image_id} waits for its regions")
            raise NotFound(f"Picture {image_id} has no regions that this model reads.")
        features = store.features(image.slot)
        if not features.mask.any():
            raise NotFound(f"Picture {image_id} has no regions: it could not be read when they were found anew.")
        return features

    def check_detector_of(self, model: ModelView) -> None:
        """FeaturesOnly, or NotReady, unless the model reads what the detector in service finds."""
        digest = model.header.extractor_digest
        if digest == self._extractor.digest:
            return
        if (progress := self._regions.progress()) is None:
            raise FeaturesOnly(
                f"{model.name} reads features of {digest}, which nothing here finds in a picture. Ask with the"
                " image_id of a stored one, or another model."
            )
        reason = f"{model.name} reads what the former detector found, which is not there for an uploaded picture"
        raise migrating(progress, f"{reason}; ask with an image_id, ask another model, or wait")

    def captions_per_picture(self) -> float:
        """The mean number of captions of a captioned picture."""
        return self.catalog.identities.count_captions().each


def letters_of(image: Image) -> int:
    """The size of a picture's record in letters: those of its description, and an allowance for the rest."""
    tags = sum(len(name) + len(str(value)) for name, value in image.tags.items())
    return LETTERS_OF_THE_REST + len(image.filename) + sum(map(len, image.captions)) + tags


def compiled(request: SearchRequest) -> Filter | None:
    """The request's filter as the catalog takes it; None without one."""
    return request.filter.compiled() if request.filter else None


def _shared(mask: Mask) -> Mask:
    """The mask, which cannot be changed any more: several searches use it."""
    mask.flags.writeable = False
    return mask


def _without(allowed: Mask, slots: Sequence[int]) -> Mask:
    """A copy of the mask in which those of the slots that it covers are False."""
    mask = allowed.copy()
    mask[[slot for slot in slots if slot < len(mask)]] = False
    return mask
