"""View builders: views follow the region slab and the catalog by sequence number, from wherever they are."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from index.catalog.catalog import Catalog
from index.views.slab import Corrupt, DamagedRow, Slab
from index.views.view_writer import ViewWriter
from models.batches import Regions, Words, tiles
from models.extractors.base import Extractor
from models.matching.encoded import EncodedImages, HalfPrecisionOverflow, stored_arrays, to_half
from models.matching.lazy_matcher import LazyMatcher
from models.matching.matcher import Matcher
from models.text.reader import readable
from service.storage.disk import is_disk_full

ROWS_AT_ONCE = 128
PICTURES_TOGETHER = 8  # encoded together

log = logging.getLogger(__name__)


class ViewBuilder:
    """Extends the view of one model."""

    def __init__(self, matcher: Matcher, folder: Path, extractor: Extractor) -> None:
        """Open or create the view; ValueError when the model reads the features of another extractor."""
        if matcher.extractor_digest != extractor.digest:
            raise ValueError(
                f"The model {matcher.name} was trained on features of the extractor {matcher.extractor_digest}; this"
                f" service runs {extractor.digest}. Name the detector it was trained with in REGARD_DETECTOR."
            )
        self._matcher, self._extractor, self._folder = matcher, extractor.digest, folder
        blank = matcher.blank_record(extractor.num_regions, extractor.feature_dim)
        self._masks = [name for name, tensor in blank.items() if tensor.dtype == torch.bool]
        self._opened = partial(
            ViewWriter,
            folder,
            layout=matcher.image_layout(extractor.num_regions, extractor.feature_dim),
            bools=self._masks,
            wide=matcher.wide_fields,
            embed_dim=matcher.embed_dim,
            word_dim=matcher.word_dim,
            digest=matcher.digest,
            extractor=extractor.digest,
        )
        self._writer = self._opened()

    def _make_anew_if_removed(self) -> None:
        if not self._writer.is_there():
            log.warning("the view in %s was removed: it is made anew", self._folder)
            self._writer.close()
            self._writer = self._opened()

    def catch_up(self, catalog: Catalog, slab: Slab) -> bool:
        """Take in the next rows; False when there were none. DamagedRow where a record is damaged."""
        self._make_anew_if_removed()
        counts = self._writer.counts()
        num_records = catalog.region_stores.num_records(self._extractor)
        images = range(counts.images, min(num_records, counts.images + ROWS_AT_ONCE))
        captions = range(counts.captions, min(catalog.num_caption_slots(), counts.captions + ROWS_AT_ONCE))
        if images:
            self._add_images(images, slab)
        if captions:
            self._add_captions(captions, catalog)
        return bool(images or captions)

    def replace_images(self, slots: Iterable[int], slab: Slab) -> None:
        """Encode pictures anew whose records were written again; those that the view does not hold yet are left."""
        self._make_anew_if_removed()
        if held := [slot for slot in slots if slot < self.num_images]:
            self._writer.replace_images(held, *self._encoded_images(held, slab))

    def check_rows(self, slab: Slab, repair: Callable[[int], None]) -> Iterator[int]:
        """Reads one row after the other, makes damaged and outdated ones again, and yields the bytes of each.

        `repair` makes a damaged region record again. Words of captions lie one after the other: behind damaged ones all
        are encoded again.
        """
        row = 0
        while row < self.num_images:
            stores = self._writer.stores  # of the view that is there by now
            try:
                stores.check_image(row)
            except Corrupt as fault:
                log.error("%s; it is encoded again", fault)
                self._encode_again(row, slab, repair)
            else:
                if self._is_outdated(row, slab):
                    self._encode_again(row, slab, repair)
            yield stores.images.dtype.itemsize + stores.image_embeddings.dtype.itemsize
            row += 1
        row = 0
        while row < (counts := self._writer.counts()).captions:
            stores = self._writer.stores
            try:
                stores.check_caption(row)
            except Corrupt as fault:
                log.error("%s; captions are encoded again from there on", fault)
                self._writer.cut_back(counts.images, row)
            yield stores.captions.mean_bytes + stores.caption_embeddings.dtype.itemsize
            row += 1

    def _is_outdated(self, row: int, slab: Slab) -> bool:
        """Whether a row has no regions where the record does by now: its picture came back while settings left the view
        out."""
        if not self._masks or any(map(np.any, self._writer.stores.images.read([row], fields=self._masks).values())):
            return False
        return bool(slab.read([row], fields=["mask"])["mask"].any())

    def _encode_again(self, slot: int, slab: Slab, repair: Callable[[int], None]) -> None:
        try:
            self.replace_images([slot], slab)
        except DamagedRow:
            repair(slot)
            self.replace_images([slot], slab)

    def _add_images(self, slots: range, slab: Slab) -> None:
        self._writer.add_images(slots.start, *self._encoded_images(slots, slab))

    def _encoded_images(
        self, slots: Sequence[int], slab: Slab
    ) -> tuple[dict[str, npt.NDArray[Any]], npt.NDArray[np.float32]]:
        for slot in slots:
            slab.check(slot)  # the view would keep the damage when the record itself is mended
        record = slab.read(slots, fields=["features", "mask"])
        regions = Regions(torch.from_numpy(record["features"]).float(), torch.from_numpy(record["mask"]))
        rows, embeddings = encoded_alike(self._matcher, regions)
        return self._as_stored(rows), _finite(embeddings)

    def _as_stored(self, images: EncodedImages) -> dict[str, npt.NDArray[Any]]:
        """The fields of the view's records. HalfPrecisionOverflow for numbers that these have no room for."""
        wide = self._writer.wide_fields
        try:
            return stored_arrays(images, wide)
        except HalfPrecisionOverflow as fault:
            if set(self._matcher.wide_fields) <= set(wide):
                raise
            raise HalfPrecisionOverflow(
                f"{fault}; or remove {self._folder}, a view of an earlier release, which a worker then makes anew with"
                " more room"
            ) from fault

    def _add_captions(self, slots: range, catalog: Catalog) -> None:
        words, embeddings = self._encoded([caption.text for caption in catalog.captions_at(slots)])
        lengths = words.mask.sum(1).tolist()
        vectors = to_half(words.vectors, "words").cpu().numpy()
        records = [vectors[row, :length] for row, length in enumerate(lengths)]
        self._writer.add_captions(slots.start, records, _finite(embeddings))

    def _encoded(self, sentences: Sequence[str]) -> tuple[Words, Tensor]:
        return self._matcher.encode_words([readable(self._matcher.words, sentence) for sentence in sentences])

    @property
    def num_images(self) -> int:
        """Pictures that the view holds."""
        return self._writer.counts().images

    def close(self) -> None:
        """Close the files."""
        self._writer.close()


def encoded_alike(matcher: Matcher, regions: Regions) -> tuple[EncodedImages, Tensor]:
    """Encoded pictures and their embeddings, which depend on no picture beside them nor on how many there are.

    Products of other numbers of rows differ in a last digit, and a rounded record by more; so always as many pictures
    are encoded at once, the last ones beside empty ones.
    """
    num = len(regions.mask)
    missing = -num % PICTURES_TOGETHER
    vectors = torch.nn.functional.pad(regions.vectors, (0, 0, 0, 0, 0, missing))
    mask = torch.nn.functional.pad(regions.mask, (0, 0, 0, missing), value=True)
    encoded = [
        matcher.encode_regions(Regions(vectors[part], mask[part])) for part in tiles(len(mask), PICTURES_TOGETHER)
    ]
    together = EncodedImages.cat([images for images, _ in encoded])[:num]
    return together, torch.cat([embeddings for _, embeddings in encoded])[:num]


class ViewBuilders:
    """The builders of a worker: of the models that settings name, and of others once their views are requested."""

    def __init__(
        self,
        matchers: Iterable[Matcher],
        on_request: Iterable[LazyMatcher],
        folder_of: Callable[[str], Path],
        extractor: Extractor,
    ) -> None:
        """`folder_of` gives the view's folder for a model's digest. ValueError as ViewBuilder raises it."""
        self._folder_of, self._extractor = folder_of, extractor
        self._builders: dict[str, ViewBuilder] = {}
        self._waiting = dict[str, LazyMatcher]()
        self._stopped = set[str]()  # digests of models whose views have no room for their numbers
        try:
            for matcher in matchers:
                self._open(matcher)
            self._waiting = {
                model.header.digest: model for model in on_request if model.header.digest not in self._builders
            }
        except BaseException:
            self.close()
            raise

    def _open(self, matcher: Matcher) -> None:
        if matcher.digest not in self._builders:
            folder = self._folder_of(matcher.digest)
            self._builders[matcher.digest] = ViewBuilder(matcher, folder, self._extractor)

    def catch_up(self, catalog: Catalog, slab: Slab) -> bool:
        """Take the next rows into every view; False when there were none."""
        self.open_requested(catalog)
        # Every view takes its turn before the next batch, so that what is ingested is soon found.
        advanced = False
        for digest, builder in self._going_on():
            with self._stopping_alone(digest):
                advanced = builder.catch_up(catalog, slab) or advanced
        return advanced

    def _going_on(self) -> list[tuple[str, ViewBuilder]]:
        """The builders that go on, by their models' digests."""
        return [(digest, builder) for digest, builder in self._builders.items() if digest not in self._stopped]

    @contextmanager
    def _stopping_alone(self, digest: str) -> Iterator[None]:
        """A block of work on a view: one that has no room for its model's numbers is logged, and stops no other."""
        try:
            yield
        except HalfPrecisionOverflow as fault:
            log.error("%s; the view stays as it is before the worker starts again", fault)
            self._stopped.add(digest)

    def open_requested(self, catalog: Catalog) -> None:
        """Open the views that were asked for and are not open yet."""
        if self._waiting:
            for digest in catalog.processes.requested_views() & self._waiting.keys():
                self._open_one(self._waiting[digest])
                del self._waiting[digest]

    def _open_one(self, model: LazyMatcher) -> None:
        """Open the view of a model that is asked for; one that cannot be loaded or opened is logged, and stops no
        other. OSError where the disk is full: it is opened once there is room."""
        try:
            self._open(model.matcher)
        except Exception as fault:
            if is_disk_full(fault):
                raise
            log.exception("the view of %s is not built before the worker starts again", model.header.name)
            return
        log.info("the view of %s is built from now on, as was asked for", model.header.name)

    def hold(self, images: int) -> bool:
        """Whether every view that goes on holds at least `images` pictures."""
        return all(builder.num_images >= images for _, builder in self._going_on())

    def replace_images(self, slots: Sequence[int], slab: Slab) -> None:
        """Encode, in every view that holds them, pictures whose records were written again."""
        for digest, builder in self._going_on():
            with self._stopping_alone(digest):
                builder.replace_images(slots, slab)

    def check_rows(self, slab: Slab, repair: Callable[[int], None]) -> Iterator[int]:
        """Reads every row of every view, as ViewBuilder.check_rows does."""
        for digest, builder in self._going_on():
            with self._stopping_alone(digest):
                yield from builder.check_rows(slab, repair)

    def close(self) -> None:
        """Close the files."""
        for builder in self._builders.values():
            builder.close()


def _finite(embeddings: Tensor) -> npt.NDArray[np.float32]:
    # A picture without a single region has no mean: zeros are found last, and spoil nothing.
    array: npt.NDArray[np.float32] = torch.nan_to_num(embeddings.float()).cpu().numpy()
    return array
