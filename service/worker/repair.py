"""Region records that a damaged disk lost are made again from the originals, where there are some."""

import logging
from collections.abc import Sequence

import numpy as np

from index.catalog import Catalog
from index.records import Image
from index.slab import Slab
from models.extractors.base import Extractor
from service.media.decode_pool import DecodedPicture as Decoded
from service.media.decode_pool import DecodeFailed, DecodePool
from service.storage.originals import Originals
from service.storage.region_records import region_layout
from service.worker.worker import Records, region_records

log = logging.getLogger(__name__)


def mend(slab: Slab, catalog: Catalog, originals: Originals, pool: DecodePool, extractor: Extractor, batch: int) -> int:
    """Make every committed record of a tail that does not check again; how many that were."""
    committed = catalog.num_slots()
    sound = slab.sound_length(committed)
    for start in range(sound, committed, batch):
        slots = range(start, min(start + batch, committed))
        log.warning("region records %d to %d are damaged and made again", slots.start, slots.stop - 1)
        decoded = [_decoded(image, originals, pool) for image in catalog.images_at(slots)]
        slab.append(start, _with_gaps(decoded, extractor))
    return committed - sound


def _decoded(image: Image | None, originals: Originals, pool: DecodePool) -> Decoded | None:
    if image is None:  # deleted: nothing asks for its regions
        return None
    if not image.pictured:
        log.error("%s has lost its regions, which came without a picture: restore a copy of the data", image.image_id)
        return None
    try:
        return pool.decode(originals.path(image.image_id, image.extension), originals.thumbnail(image.image_id))
    except DecodeFailed as failed:
        log.error("picture %s has lost its regions: %s", image.image_id, failed.reason)
        return None


def _with_gaps(decoded: Sequence[Decoded | None], extractor: Extractor) -> Records:
    """Records in order; where there is no picture, one without regions."""
    layout = region_layout(extractor.num_regions, extractor.feature_dim)
    records = {name: np.zeros((len(decoded), *shape), dtype) for name, (shape, dtype) in layout.items()}
    there = [place for place, one in enumerate(decoded) if one is not None]
    if there:
        made = region_records(extractor, [one for one in decoded if one is not None])
        for name, array in records.items():
            array[there] = made[name]
    return records
