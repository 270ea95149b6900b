"""Region records that a damaged disk lost are made again from the originals, where there are some."""

import logging

from index.catalog import Catalog
from index.records import Image
from index.slab import Slab
from models.extractors.base import Extractor
from service.media.decode_pool import DecodedPicture, DecodeFailed, DecodePool
from service.storage.originals import Originals
from service.worker.detection import records_with_gaps

log = logging.getLogger(__name__)


def repair_regions(
    slab: Slab, catalog: Catalog, originals: Originals, pool: DecodePool, extractor: Extractor, batch: int
) -> int:
    """Make the committed records of a damaged tail again, `batch` at a time; the number of these records."""
    committed = catalog.num_region_records(extractor.digest)
    valid = slab.valid_prefix(committed)
    for start in range(valid, committed, batch):
        slots = range(start, min(start + batch, committed))
        log.warning("region records %d to %d are damaged and made again", slots.start, slots.stop - 1)
        decoded = [_decoded(image, extractor.digest, originals, pool) for image in catalog.images_at(slots)]
        slab.append(start, records_with_gaps(extractor, decoded))
    return committed - valid


def _decoded(image: Image | None, digest: str, originals: Originals, pool: DecodePool) -> DecodedPicture | None:
    if image is None:  # deleted: nothing asks for its regions
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
