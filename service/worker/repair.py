"""Region records that a damaged disk lost are made again from the originals, where there are some."""

import logging
import time
from collections.abc import Callable, Sequence

from index.catalog import Catalog
from index.records import Image
from index.slab import Slab, damaged_rows
from models.extractors.base import Extractor
from service.media.decode_pool import DecodedPicture, DecodeFailed, DecodePool
from service.storage.originals import Originals
from service.storage.region_store_entries import region_store_entries
from service.worker.detection import ENDED_WORKER, MOST_STARTS, batch_length, counted_start, records_of_readable

LOST = "Its regions were damaged on the disk, and it cannot be read any more."

log = logging.getLogger(__name__)


class RecordRepair:
    """Makes damaged records again: those in a damaged tail when the worker starts, single ones while it runs."""

    def __init__(
        self,
        *,
        slab: Slab,
        catalog: Catalog,
        originals: Originals,
        pool: DecodePool,
        extractor: Extractor,
        settle: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`settle` is called before the detector gets a picture: it ends what else the detector is doing, so that no
        picture is blamed for what another did."""
        self._settle = settle
        self._slab, self._catalog, self._originals = slab, catalog, originals
        self._pool, self._extractor, self._clock = pool, extractor, clock

    def num_records(self) -> int:
        """Leading slots that have a record."""
        return self._catalog.region_stores.num_records(self._extractor.digest)

    def mend_tail(self, batch: int, beat: Callable[[], None] = lambda: None) -> int:
        """Make those committed records of a damaged tail again that do not match their checksums, `batch` at a time;
        the number of these records.

        `beat`, called before each batch, tells others that the worker lives.
        """
        committed = self.num_records()
        damaged = damaged_rows(self._slab.check, self._slab.valid_prefix(committed), committed)
        made = 0
        while made < len(damaged):
            beat()
            images = self._catalog.pictures_at(_leading_run(damaged[made : made + batch]))
            ids = [image.image_id for image in images]
            length = batch_length(ids, self._catalog.starts.of(ids), batch)
            self._make(range(damaged[made], damaged[made] + length), images[:length])
            made += length
        return made

    def make_again(self, slot: int) -> None:
        """Make the record of a slot again from its original; where there is none, note it among the failures."""
        self._make(range(slot, slot + 1), self._catalog.pictures_at([slot]))

    def _make(self, slots: range, images: Sequence[Image]) -> None:
        log.warning("region records %d to %d are damaged and made again", slots.start, slots.stop - 1)
        starts = self._catalog.starts
        before = starts.of([image.image_id for image in images])
        decoded: list[DecodedPicture | None] = []
        lost: dict[int, str | None] = {}
        for slot, image in zip(slots, images, strict=True):
            found = self._decoded(image)
            if found is not None and before.get(image.image_id, 0) >= MOST_STARTS:
                log.error("picture %s has lost its regions: %s", image.image_id, ENDED_WORKER)
                found, lost[slot] = None, ENDED_WORKER
            elif found is None and not image.is_erased:
                lost[slot] = LOST if image.pictured else None
            decoded.append(found)
        there = [image.image_id for image, one in zip(images, decoded, strict=True) if one is not None]
        self._settle()
        with counted_start(starts, there):
            records, failed = records_of_readable(self._extractor, decoded)
        starts.end([images[place].image_id for place in failed])
        self._slab.append(slots.start, records)
        self._note(slots, lost | {slots[place]: reason for place, reason in failed.items()})

    def _note(self, slots: range, lost: dict[int, str | None]) -> None:
        """Note which records are blank, so that they are not searched."""
        digest = self._extractor.digest
        if lost and not self._catalog.region_stores.entries():  # failures are listed by the current store
            self._catalog.region_stores.replace(region_store_entries(self._catalog, digest))
        self._catalog.region_stores.note_records(digest, slots, lost, self._clock())

    def _decoded(self, image: Image) -> DecodedPicture | None:
        if image.is_erased:
            return None
        if not image.pictured and image.extractor != self._extractor.digest:
            return None  # its features are in the store of another extractor
        if not image.pictured:
            log.error(
                "%s has lost its regions, which came without a picture: restore a copy of the data", image.image_id
            )
            return None
        try:
            path = self._originals.path(image.image_id, image.extension)
            return self._pool.decode(path, self._originals.thumbnail(image.image_id))
        except DecodeFailed as failed:
            log.error("picture %s has lost its regions: %s", image.image_id, failed.reason)
            return None


def _leading_run(slots: Sequence[int]) -> range:
    """The first of the ascending slots, as far as each follows the one before."""
    length = 1
    while length < len(slots) and slots[length] == slots[0] + length:
        length += 1
    return range(slots[0], slots[0] + length)
