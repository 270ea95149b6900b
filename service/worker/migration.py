"""Migration: the regions of all pictures are found anew, from their originals, with another detector.

In slot order, a batch at a time; docs/design.md ("Another detector") tells each step, and what a kill leaves.

Slots keep their order because a view, and a slab, is a prefix of them: how far a migration is, is one number.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from index.catalog.catalog import Catalog
from index.records import Image
from models.extractors.base import Extractor
from service.media.decode_pool import DecodedPicture, DecodeFailed
from service.storage.data_dir import DataDir
from service.storage.regions.entries import region_store_entries
from service.storage.regions.folders import remove_given_up
from service.storage.regions.migration_progress import migration_progress
from service.worker.decode_attempts import decoded_in_attempts
from service.worker.decoding_ahead import DecodingAhead, files_to_make
from service.worker.detection import MOST_STARTS, batch_length
from service.worker.open_store import OpenStore
from service.worker.slot_records import SlotRecords
from service.worker.view_builder import ViewBuilders

LOGGED_EVERY_S = 30.0

log = logging.getLogger(__name__)


def put_in_service(catalog: Catalog, extractor: Extractor, now: float) -> str:
    """List the extractor's store as the one that new records go to, if it is not; its folder below the data directory.

    Nothing is listed while there is one extractor alone.
    """
    current, *others = region_store_entries(catalog, extractor.digest)
    if current.records is not None:  # the rate is that of this worker: nobody knows how long none was running
        current = replace(current, timed_from=now, timed_records=current.records, timed_to=None)
    listed = catalog.region_stores.entries()
    if others and [current, *others] != listed:
        if current.extractor not in {entry.extractor for entry in listed}:
            catalog.starts.forget()
        catalog.region_stores.replace([current, *others])
    if (progress := migration_progress(catalog, extractor.digest)) is not None:
        log.warning("another detector, %s, replaces %s: %s", extractor.digest, " and ".join(progress.former), progress)
    return current.folder


class Migration:
    """Finds the regions of all pictures anew, as far as that is needed. Hold the WriterLock."""

    def __init__(
        self,
        store: OpenStore,
        *,
        data: DataDir,
        views: ViewBuilders,
        batch: int,
        end_detection: Callable[[], None],
    ) -> None:
        """The store's slab is the one that `put_in_service` named; `end_detection` is that of SlotRecords."""
        self._records = SlotRecords(store, end_detection)
        self._catalog, self._originals, self._slab = store.catalog, store.originals, store.slab
        self._extractor, self._heartbeat = store.extractor, store.heartbeat
        self._data, self._views, self._batch = data, views, batch
        self._clocks = store.clocks
        self._ahead = DecodingAhead(store.pool, partial(files_to_make, store.originals))
        self._logged = self._clocks.timer()
        self._unread: list[int] = []  # slots to try again
        self._unread_of: int | None = None  # the catalog's version that they were looked up in; None before the first
        current, *self._others = region_store_entries(store.catalog, store.extractor.digest)
        remove_given_up(data, self._others)  # what a kill left of them
        self._needed = store.catalog.num_slots()  # pictures that every view holds before the former stores are given up
        self.filling = current.records is not None
        """Whether new pictures get their regions in their turn, after those that came before them."""

    def advance(self) -> bool:
        """Find the regions of the next batch, or end what is complete; False when there was nothing to do."""
        if self.filling:
            return self._fill()
        return self._read_again() or self._finish()

    def _fill(self) -> bool:
        digest = self._extractor.digest
        start, stop = self._catalog.region_stores.num_records(digest), self._catalog.num_slots()
        if start == stop:
            if self._catalog.region_stores.complete(digest):
                self.filling, self._needed = False, stop
                log.info("the regions of all %d pictures are found anew", stop)
            return True
        images = self._catalog.images_in_any_state_at(range(start, min(start + 2 * self._batch, stop)))
        ids = _ids(images)
        slots = range(start, start + batch_length(ids, self._catalog.starts.of(ids), self._batch))
        blanks = self._write(slots, images)
        self._catalog.region_stores.add_records(digest, slots, blanks, self._clocks.time_of_day())
        self._log_progress()
        return True

    def _write(self, slots: range, images: Sequence[Image]) -> dict[int, str | None]:
        """Write the records of consecutive slots; slot -> reason for the blank ones. `images` may go on past them."""
        self._decode_ahead(images)
        there = images[: len(slots)]
        decoded = [self._decoded(image) if _can_be_read(image) else None for image in there]
        return self._records.write(slots, there, decoded)

    def _decode_ahead(self, images: Sequence[Image]) -> None:
        """Have these decoded in their order: while a batch is with the detector, the next one is decoded."""
        self._ahead.keep({image.image_id for image in images})  # others were erased meanwhile
        for image in images:
            if _can_be_read(image):
                self._ahead.begin(image)

    def forget_ahead(self) -> None:
        """Drop what was decoded ahead, to be decoded again in its turn."""
        self._ahead.forget()

    def _decoded(self, image: Image) -> DecodedPicture | str:
        """The picture, or why it cannot be had."""
        decoded = decoded_in_attempts(lambda: self._ahead.take(image), self._heartbeat)
        return decoded.reason if isinstance(decoded, DecodeFailed) else decoded

    def _read_again(self) -> bool:
        """Try once more what could not be read: all of it when the worker starts, since it may have been restored, and
        later what is sent again. Views take it in at once."""
        digest = self._extractor.digest
        if not self._unread and self._unread_of != self._catalog.version():
            self._unread = self._unreadable(only_there_again=self._unread_of is not None)
        if not self._unread:
            return False
        slots, self._unread = self._unread[: self._batch], self._unread[self._batch :]
        there = self._catalog.images_in_any_state_at(slots)
        blanks: dict[int, str | None] = {}
        for image in there:
            assert image.slot is not None
            blanks |= self._write(range(image.slot, image.slot + 1), [image])
        made = [image.slot for image in there if image.slot is not None]
        # The views follow first: after a kill the slots are still noted as blank, and read again.
        self._views.open_requested(self._catalog)
        self._views.replace_images([slot for slot in made if slot not in blanks], self._slab)
        self._catalog.region_stores.note_records(digest, made, blanks, self._clocks.time_of_day())
        return True

    def _unreadable(self, only_there_again: bool) -> list[int]:
        """Slots to read again, whose originals are there: not those of pictures that end the worker, until their files
        are sent again."""
        self._unread_of = self._catalog.version()
        images = self._catalog.images_in_any_state_at(
            self._catalog.region_stores.unreadable_slots(self._extractor.digest, only_there_again)
        )
        starts = self._catalog.starts.of(_ids(images))
        kept = [image for image in images if starts.get(image.image_id, 0) < MOST_STARTS]
        there = [image for image in kept if self._originals.path(image.image_id, image.extension).exists()]
        return [image.slot for image in there if image.slot is not None]

    def _finish(self) -> bool:
        """Give up the former stores once nothing depends on them."""
        if not any(entry.state == "former" for entry in self._others) or not self._views.hold(self._needed):
            return False
        self._catalog.region_stores.retire_former()
        _, *self._others = region_store_entries(self._catalog, self._extractor.digest)
        for entry in self._others:
            if entry.state == "kept":
                log.warning(
                    "pictures are known by features of %s alone: name models for these in REGARD_MODELS to search them",
                    entry.extractor,
                )
        remove_given_up(self._data, self._others)
        log.info("searches use the regions of %s alone from now on", self._extractor.digest)
        return True

    def _log_progress(self) -> None:
        now = self._clocks.timer()
        if now - self._logged >= LOGGED_EVERY_S:
            self._logged = now
            log.info("%s", migration_progress(self._catalog, self._extractor.digest))


def _ids(images: Sequence[Image]) -> list[str]:
    return [image.image_id for image in images]


def _can_be_read(image: Image) -> bool:
    return image.pictured and not image.is_erased
