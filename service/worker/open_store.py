"""The store that a worker writes, with its detector and decoder."""

from dataclasses import dataclass

from index.catalog.catalog import Catalog
from index.views.slab import Slab
from models.extractors.base import Extractor
from service.clocks import Clocks
from service.media.decode_pool import DecodePool
from service.storage.originals import Originals
from service.worker.heartbeat import Heartbeat


@dataclass(frozen=True)
class OpenStore:
    """The parts of a store opened for writing. Hold the WriterLock."""

    catalog: Catalog
    originals: Originals
    slab: Slab
    """Region records of `extractor`."""
    extractor: Extractor
    pool: DecodePool
    heartbeat: Heartbeat
    clocks: Clocks
