"""View builders: they extend views from the region slab and the catalog, each from the row that it has reached."""

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
        self._matcher, self._extractor_digest, self._folder = matcher, extractor.digest, folder
        blank = matcher.blank_record(extractor.num_regions, extractor.feature_dim)
        self._masks = [name for name, tensor in blank.items() if tensor.dtype == torch.bool]
        self._open_writer = partial(
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
        self._writer = self._open_writer()

    def _make_anew_if_removed(self) -> None:
        if not self._writer.is_there():
            log.warning("the view in %s was removed: it is made anew", self._folder)
            self._writer.close()
            self._writer = self._open_writer()

    def catch_up(self, catalog: Catalog, slab: Slab) -> bool:
        """Add the next rows; False when there were none. DamagedRow where a record is damaged."""
        self._make_anew_if_removed()
        counts = self._writer.counts()
        num_records = catalog.region_stores.num_records(self._extractor_digest)
        images = range(counts.images, min(num_records, counts.images + ROWS_AT_ONCE))
        captions = range(counts.captions, min(catalog.num_caption_slots(), counts.captions + ROWS_AT_ONCE))
        if images:
            self._add_images(images, slab)
        if captions:
            self._add_captions(captions, catalog)
        return bool(images or captions)

    def replace_images(self, slots: Iterable[int], slab: Slab) -> None:
        """Encode pictures again whose records were rewritten, as far as the view has them."""
        self._make_anew_if_removed()
        if view_slots := [slot for slot in slots if slot < self.num_images]:
            self._writer.replace_images(view_slots, *self._encoded_images(view_slots, slab))

    def check_rows(self, slab: Slab, repair: Callable[[int], None]) -> Iterator[int]:
        """Read one row after the other, recompute damaged and outdated ones, and yield the bytes of each.

        `repair` recomputes a damaged region record. The words of captions are stored consecutively: after a damaged
        caption, all following ones are encoded again.
        """
        row = 0
        while row < self.num_images:
            stores = self._writer.stores  # the view may have been recreated since
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
        """Whether a row has no regions although the record does: its picture was restored while the view was not
        configured."""
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
            slab.check(slot)  # the view would keep the damage after the record is repaired
        record = slab.read(slots, fields=["features", "mask"])
        regions = Regions(torch.from_numpy(record["features"]).float(), torch.from_numpy(record["mask"]))
        rows, embeddings = encoded_alike(self._matcher, regions)
        return self._as_stored(rows), _finite(embeddings)

    def _as_stored(self, images: EncodedImages) -> dict[str, npt.NDArray[Any]]:
        """The fields of the view's records. HalfPrecisionOverflow for numbers beyond their range."""
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
        """The number of pictures in the view."""
        return self._writer.counts().images

    def close(self) -> None:
        """Close the files."""
        self._writer.close()


def encoded_alike(matcher: Matcher, regions: Regions) -> tuple[EncodedImages, Tensor]:
    """Encoded pictures and their embeddings, independent of the other pictures and of their number.

    Matrix products with different numbers of rows differ in the last digit, and a rounded record by more. So the batch
    size is fixed, and the last batch is padded with empty pictures.
    """
    num_pictures = len(regions.mask)
    missing = -num_pictures % PICTURES_TOGETHER
    vectors = torch.nn.functional.pad(regions.vectors, (0, 0, 0, 0, 0, missing))
    mask = torch.nn.functional.pad(regions.mask, (0, 0, 0, missing), value=True)
    encoded = [
        matcher.encode_regions(Regions(vectors[part], mask[part])) for part in tiles(len(mask), PICTURES_TOGETHER)
    ]
    images = EncodedImages.cat([images for images, _ in encoded])[:num_pictures]
    return images, torch.cat([embeddings for _, embeddings in encoded])[:num_pictures]


class ViewBuilders:
    """The builders of a worker: for the configured models, and for others once their views are requested."""

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
        self._stopped = set[str]()  # digests of models whose numbers exceed the range of their views
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
        """Add the next rows to every view; False when there were none."""
        self.open_requested(catalog)
        # All views before the next batch, so that new pictures are soon found.
        advanced = False
        for digest, builder in self._going_on():
            with self._stopping_alone(digest):
                advanced = builder.catch_up(catalog, slab) or advanced
        return advanced

    def _going_on(self) -> list[tuple[str, ViewBuilder]]:
        """The builders that were not stopped, by their models' digests."""
        return [(digest, builder) for digest, builder in self._builders.items() if digest not in self._stopped]

    @contextmanager
    def _stopping_alone(self, digest: str) -> Iterator[None]:
        """A block of work on a view: an overflow of its range is logged, and stops no other view."""
        try:
            yield
        except HalfPrecisionOverflow as fault:
            log.error("%s; the view stays as it is before the worker starts again", fault)
            self._stopped.add(digest)

    def open_requested(self, catalog: Catalog) -> None:
        """Open the requested views that are not open yet."""
        if self._waiting:
            for digest in catalog.processes.requested_views() & self._waiting.keys():
                self._open_one(self._waiting[digest])
                del self._waiting[digest]

    def _open_one(self, model: LazyMatcher) -> None:
        """Open the view of a requested model; a failure to load or open it is logged, and affects no other. OSError
        where the disk is full: it is opened once there is room."""
        try:
            self._open(model.matcher)
        except Exception as fault:
            if is_disk_full(fault):
                raise
            log.exception("the view of %s is not built before the worker starts again", model.header.name)
            return
        log.info("the view of %s is built from now on, as was asked for", model.header.name)

    def all_have(self, images: int) -> bool:
        """Whether every view that was not stopped has at least `images` pictures."""
        return all(builder.num_images >= images for _, builder in self._going_on())

    def replace_images(self, slots: Sequence[int], slab: Slab) -> None:
        """Encode pictures again, in every view that has them, whose records were rewritten."""
        for digest, builder in self._going_on():
            with self._stopping_alone(digest):
                builder.replace_images(slots, slab)

    def check_rows(self, slab: Slab, repair: Callable[[int], None]) -> Iterator[int]:
        """Read every row of every view, as ViewBuilder.check_rows does."""
        for digest, builder in self._going_on():
            with self._stopping_alone(digest):
                yield from builder.check_rows(slab, repair)

    def close(self) -> None:
        """Close the files."""
        for builder in self._builders.values():
            builder.close()


def _finite(embeddings: Tensor) -> npt.NDArray[np.float32]:
    # A picture without any region has no mean: zeros sort last, and do no harm.
    array: npt.NDArray[np.float32] = torch.nan_to_num(embeddings.float()).cpu().numpy()
    return array
