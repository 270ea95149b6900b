"""Repair: region records lost to a damaged disk are recomputed from the originals, where these exist."""

import logging
from collections.abc import Callable, Sequence

from index.records import Image
from index.views.slab import damaged_rows
from service.media.decode_pool import DecodedPicture, DecodeFailed
from service.storage.regions.entries import region_store_entries
from service.worker.decode_attempts import decoded_in_attempts
from service.worker.decoding_ahead import files_to_make
from service.worker.detection import batch_length
from service.worker.open_store import OpenStore
from service.worker.slot_records import SlotRecords

LOST = "Its regions were damaged on the disk, and it cannot be read any more."
NOT_READ = "Its regions were damaged on the disk, and it could not be read: {reason}"

log = logging.getLogger(__name__)


class RecordRepair:
    """Recomputes damaged records: those at the end of the slab when the worker starts, single ones while it runs."""

    def __init__(self, store: OpenStore, end_detection: Callable[[], None]) -> None:
        """`end_detection`: as in SlotRecords."""
        self._records = SlotRecords(store, end_detection)
        self._slab, self._catalog, self._originals = store.slab, store.catalog, store.originals
        self._pool, self._extractor = store.pool, store.extractor
        self._heartbeat, self._clocks = store.heartbeat, store.clocks

    def num_records(self) -> int:
        """The number of leading slots that have a record."""
        return self._catalog.region_stores.num_records(self._extractor.digest)

    def repair_tail(self, batch: int) -> int:
        """Recompute the committed records of a damaged tail that fail their checksums, `batch` at a time; the number of
        these records."""
        committed = self.num_records()
        damaged = damaged_rows(self._slab.check, self._slab.valid_prefix(committed), committed)
        num_made = 0
        while num_made < len(damaged):
            images = self._catalog.images_in_any_state_at(_leading_run(damaged[num_made : num_made + batch]))
            ids = [image.image_id for image in images]
            length = batch_length(ids, self._catalog.starts.of(ids), batch)
            self._make(range(damaged[num_made], damaged[num_made] + length), images[:length])
            num_made += length
        return num_made

    def make_again(self, slot: int) -> None:
        """Recompute the record of a slot from its original; without one, list the picture as a failure."""
        self._make(range(slot, slot + 1), self._catalog.images_in_any_state_at([slot]))

    def _make(self, slots: range, images: Sequence[Image]) -> None:
        log.warning("region records %d to %d are damaged and made again", slots.start, slots.stop - 1)
        blanks = self._records.write(slots, images, [self._decoded(image) for image in images])
        erased = {slot for slot, image in zip(slots, images, strict=True) if image.is_erased}
        self._note(slots, {slot: reason for slot, reason in blanks.items() if slot not in erased})

    def _note(self, slots: range, lost: dict[int, str | None]) -> None:
        """Record which of the slots are blank, so that these are not searched.

        A record that was blank before and is valid now is read once more (Migration), since views hold a blank row for
        it.
        """
        digest = self._extractor.digest
        blank_before = self._catalog.region_stores.unreadable_slots(digest)
        restored = [slot for slot in blank_before if slot in slots and slot not in lost]
        if lost and not self._catalog.region_stores.entries():  # failures are listed by the current store
            self._catalog.region_stores.replace(region_store_entries(self._catalog, digest))
        unchanged = [slot for slot in slots if slot not in restored]
        self._catalog.region_stores.note_records(digest, unchanged, lost, self._clocks.time_of_day())
        self._catalog.region_stores.read_again(restored)

    def _decoded(self, image: Image) -> DecodedPicture | str | None:
        """The picture, or the reason why it cannot be read; None if there never was a picture."""
        if image.is_erased:
            return None
        if not image.pictured:
            if image.extractor == self._extractor.digest:  # otherwise another extractor's store has its features
                log.error(
                    "%s has lost its regions, which came without a picture: restore a copy of the data", image.image_id
                )
            return None
        files = files_to_make(self._originals, image)
        decoded = decoded_in_attempts(lambda: self._pool.decode(*files), self._heartbeat)
        if isinstance(decoded, DecodeFailed):
            log.warning("picture %s cannot be read: %s", image.image_id, decoded.reason)
            return LOST if decoded.final else NOT_READ.format(reason=decoded.reason)
        return decoded


def _leading_run(slots: Sequence[int]) -> range:
    """The longest run of consecutive slots at the beginning of the ascending slots."""
    length = 1
    while length < len(slots) and slots[length] == slots[0] + length:
        length += 1
    return range(slots[0], slots[0] + length)
