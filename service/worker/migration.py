"""Migration: the regions of all pictures are detected again, from their originals, with another detector.

It goes in slot order, a batch at a time; docs/design.md ("Another detector") describes each step, and the effects of a
kill. Slots keep their order because views and slabs are prefixes of them: a single number tells a migration's progress.
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
    """List the extractor's store as the current one, if it is not yet; returns its folder below the data directory.

    Nothing is listed while there is only one extractor.
    """
    current, *other_entries = region_store_entries(catalog, extractor.digest)
    if current.records is not None:  # the rate counts from now: it is unknown how long no worker was running
        current = replace(current, timed_from=now, timed_records=current.records, timed_to=None)
    listed = catalog.region_stores.entries()
    if other_entries and [current, *other_entries] != listed:
        if current.extractor not in {entry.extractor for entry in listed}:
            catalog.starts.forget()
        catalog.region_stores.replace([current, *other_entries])
    if (progress := migration_progress(catalog, extractor.digest)) is not None:
        log.warning("another detector, %s, replaces %s: %s", extractor.digest, " and ".join(progress.former), progress)
    return current.folder


class Migration:
    """Detects the regions of all pictures again, as far as needed. Hold the WriterLock."""

    def __init__(
        self,
        store: OpenStore,
        *,
        data: DataDir,
        views: ViewBuilders,
        batch: int,
        end_detection: Callable[[], None],
    ) -> None:
        """The store's slab is in the folder from `put_in_service`; `end_detection`: as in SlotRecords."""
        self._records = SlotRecords(store, end_detection)
        self._catalog, self._originals, self._slab = store.catalog, store.originals, store.slab
        self._extractor, self._heartbeat = store.extractor, store.heartbeat
        self._data, self._views, self._batch = data, views, batch
        self._clocks = store.clocks
        self._ahead = DecodingAhead(store.pool, partial(files_to_make, store.originals))
        self._logged = self._clocks.timer()
        self._unread: list[int] = []  # slots to try again
        self._unread_version: int | None = None  # the catalog's version when these were looked up; None before that
        current, *self._other_entries = region_store_entries(store.catalog, store.extractor.digest)
        remove_given_up(data, self._other_entries)  # leftovers of a kill
        self._needed = store.catalog.num_slots()  # pictures that all views must have before former stores are removed
        self.filling = current.records is not None
        """Whether new pictures get their regions in slot order, after all earlier ones."""

    def advance(self) -> bool:
        """Detect the regions of the next batch, or complete the migration; False when there was nothing to do."""
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
        """Write the records of consecutive slots; slot -> reason for the blank ones. `images` may extend beyond the
        slots."""
        self._decode_ahead(images)
        in_slots = images[: len(slots)]
        decoded = [self._decoded(image) if _can_be_read(image) else None for image in in_slots]
        return self._records.write(slots, in_slots, decoded)

    def _decode_ahead(self, images: Sequence[Image]) -> None:
        """Have these pictures decoded in order: the next batch is decoded while the detector has this one."""
        self._ahead.keep({image.image_id for image in images})  # the others were erased meanwhile
        for image in images:
            if _can_be_read(image):
                self._ahead.begin(image)

    def forget_ahead(self) -> None:
        """Drop the pictures decoded ahead, to be decoded again in their turn."""
        self._ahead.forget()

    def _decoded(self, image: Image) -> DecodedPicture | str:
        """The picture, or the reason why it cannot be read."""
        decoded = decoded_in_attempts(lambda: self._ahead.take(image), self._heartbeat)
        return decoded.reason if isinstance(decoded, DecodeFailed) else decoded

    def _read_again(self) -> bool:
        """Retry unreadable pictures: all of them when the worker starts, since they may have been restored, and later
        those sent again. Views include them at once."""
        digest = self._extractor.digest
        if not self._unread and self._unread_version != self._catalog.version():
            self._unread = self._unreadable(only_there_again=self._unread_version is not None)
        if not self._unread:
            return False
        slots, self._unread = self._unread[: self._batch], self._unread[self._batch :]
        images = self._catalog.images_in_any_state_at(slots)
        blanks: dict[int, str | None] = {}
        for image in images:
            assert image.slot is not None
            blanks |= self._write(range(image.slot, image.slot + 1), [image])
        tried_slots = [image.slot for image in images if image.slot is not None]
        # Views first: after a kill the slots are still listed as blank, and read again.
        self._views.open_requested(self._catalog)
        self._views.replace_images([slot for slot in tried_slots if slot not in blanks], self._slab)
        self._catalog.region_stores.note_records(digest, tried_slots, blanks, self._clocks.time_of_day())
        return True

    def _unreadable(self, only_there_again: bool) -> list[int]:
        """Slots to read again, whose originals exist; without pictures that crash the worker, until their files are
        sent again."""
        self._unread_version = self._catalog.version()
        images = self._catalog.images_in_any_state_at(
            self._catalog.region_stores.unreadable_slots(self._extractor.digest, only_there_again)
        )
        starts = self._catalog.starts.of(_ids(images))
        harmless = [image for image in images if starts.get(image.image_id, 0) < MOST_STARTS]
        with_original = [image for image in harmless if self._originals.path(image.image_id, image.extension).exists()]
        return [image.slot for image in with_original if image.slot is not None]

    def _finish(self) -> bool:
        """Remove the former stores once nothing depends on them."""
        if not any(entry.state == "former" for entry in self._other_entries) or not self._views.all_have(self._needed):
            return False
        self._catalog.region_stores.retire_former()
        _, *self._other_entries = region_store_entries(self._catalog, self._extractor.digest)
        for entry in self._other_entries:
            if entry.state == "kept":
                log.warning(
                    "pictures are known by features of %s alone: name models for these in REGARD_MODELS to search them",
                    entry.extractor,
                )
        remove_given_up(self._data, self._other_entries)
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
