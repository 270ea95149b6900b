"""Region records that a damaged disk lost are made again from the originals, where there are some."""

import logging
import time
from collections.abc import Callable

from index.catalog import Catalog
from index.records import Image
from index.slab import Slab
from models.extractors.base import Extractor
from service.media.decode_pool import DecodedPicture, DecodeFailed, DecodePool
from service.storage.originals import Originals
from service.storage.region_stores import region_store_entries
from service.worker.detection import records_with_gaps

log = logging.getLogger(__name__)

LOST = "Its regions were damaged on the disk, and it cannot be read any more."


class RecordRepair:
    """Makes single damaged records again while the worker runs."""

    def __init__(
        self,
        *,
        slab: Slab,
        catalog: Catalog,
        originals: Originals,
        pool: DecodePool,
        extractor: Extractor,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._slab, self._catalog, self._originals = slab, catalog, originals
        self._pool, self._extractor, self._clock = pool, extractor, clock

    def num_records(self) -> int:
        """Leading slots that have a record."""
        return self._catalog.num_region_records(self._extractor.digest)

    def make_again(self, slot: int) -> None:
        """Make the record of a slot again from its original; where there is none, note it among the failures."""
        log.warning("region record %d is damaged and made again", slot)
        (image,) = self._catalog.pictures_at([slot])
        decoded = _decoded(image, self._extractor.digest, self._originals, self._pool)
        self._slab.append(slot, records_with_gaps(self._extractor, [decoded]))
        lost: dict[int, str | None] = {}
        if decoded is None:
            lost[slot] = LOST if image.pictured and not image.is_erased else None
            if not self._catalog.region_stores():  # failures are listed by the current store
                self._catalog.set_region_stores(region_store_entries(self._catalog, self._extractor.digest))
        self._catalog.note_region_records(self._extractor.digest, [slot], lost, self._clock())


def repair_regions(
    slab: Slab, catalog: Catalog, originals: Originals, pool: DecodePool, extractor: Extractor, batch: int
) -> int:
    """Make the committed records of a damaged tail again, `batch` at a time; the number of these records."""
    committed = catalog.num_region_records(extractor.digest)
    valid = slab.valid_prefix(committed)
    for start in range(valid, committed, batch):
        slots = range(start, min(start + batch, committed))
        log.warning("region records %d to %d are damaged and made again", slots.start, slots.stop - 1)
        decoded = [_decoded(image, extractor.digest, originals, pool) for image in catalog.pictures_at(slots)]
        slab.append(start, records_with_gaps(extractor, decoded))
    return committed - valid


def _decoded(image: Image, digest: str, originals: Originals, pool: DecodePool) -> DecodedPicture | None:
    if image.is_erased:
        return None
    if not image.pictured and image.extractor != digest:
        return None  # its features are in the store of another extractor
    if not image.pictured:
        log.error("%s has lost its regions, which came without a picture: restore a copy of the data", image.image_id)
        return None
    try:
        return pool.decode(originals.path(image.image_id, image.extension), originals.thumbnail(image.image_id))
    except DecodeFailed as failed:
        log.error("picture %s has lost its regions: %s", image.image_id, failed.reason)
        return None
