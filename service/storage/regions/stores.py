"""Region stores: one slab of region records for each extractor, side by side while a new detector finds all regions
again.

The catalog lists them (`RegionStoreEntry`) with their numbers of valid records. A data directory with a single
extractor lists none: its only store is the folder `regions`. Slots are the same in all stores.
"""

import logging
import threading

from index.catalog.catalog import Catalog
from index.records import Image, RegionStoreEntry
from index.views.slab import Corrupt
from models.extractors.base import Extractor
from service.storage.data_dir import DataDir
from service.storage.regions.entries import ANSWERING, region_store_entries
from service.storage.regions.folders import described_extractor
from service.storage.regions.migration_progress import MigrationProgress, migration_progress
from service.storage.regions.records import PictureRegions, RegionStore

log = logging.getLogger(__name__)


class RegionStores:
    """Reads the region records of all extractors of a data directory. Safe to share between threads."""

    def __init__(self, data: DataDir, catalog: Catalog, extractor: Extractor) -> None:
        """`extractor` is the one in service; others are known only from the descriptions in their stores."""
        self._data, self._catalog, self._extractor = data, catalog, extractor
        self._entries = {entry.extractor: entry for entry in region_store_entries(catalog, extractor.digest)}
        self._stores: dict[str, RegionStore] = {}
        self._faults: dict[str, str] = {}  # digest -> why the latest attempt to open its store failed
        self._lock = threading.Lock()
        self.refresh()

    @property
    def extractor(self) -> str:
        """Digest of the extractor in service."""
        return self._extractor.digest

    def refresh(self) -> None:
        """Reload the list of stores. Given-up stores are dropped, and close once nobody reads them."""
        entries = {entry.extractor: entry for entry in region_store_entries(self._catalog, self.extractor)}
        with self._lock:
            self._entries = entries
            for digest, entry in entries.items():
                if entry.state not in ANSWERING:
                    self._stores.pop(digest, None)
                elif digest not in self._stores:
                    self._open(entry)

    def _open(self, entry: RegionStoreEntry) -> None:
        """Open a store; if it cannot be read, the other stores stay available."""
        folder = self._data.root / entry.folder
        if entry.extractor == self.extractor:
            self._stores[entry.extractor] = RegionStore(folder, self._extractor)
            return
        try:
            store = RegionStore(folder, described_extractor(folder, entry.extractor))
            store.open()  # now, since its files may be removed while a search still reads them
            self._stores[entry.extractor] = store
            self._faults.pop(entry.extractor, None)
        except (Corrupt, ValueError, LookupError, OSError) as fault:  # a missing store may just have been removed
            if self._faults.get(entry.extractor) != str(fault):  # once, not ten times a second
                log.warning("the regions of the extractor %s cannot be read: %s", entry.extractor, fault)
            self._faults[entry.extractor] = str(fault)

    def state(self, digest: str) -> str | None:
        """The state of an extractor's store, see RegionStoreState; None where it has none."""
        entry = self._entries.get(digest)
        return None if entry is None else entry.state

    def of(self, digest: str) -> RegionStore | None:
        """The store of the extractor with this digest; None where there is none (any more), or it cannot be read."""
        return self._stores.get(digest)

    def has_record(self, digest: str, slot: int) -> bool:
        """Whether the extractor's store has a record, possibly blank, at a committed slot."""
        entry = self._entries.get(digest)
        return entry is not None and entry.state in ANSWERING and (entry.records is None or slot < entry.records)

    def progress(self) -> MigrationProgress | None:
        """The progress of the extractor in service in finding all regions again; None where there is nothing to do."""
        return migration_progress(self._catalog, self.extractor)

    def shown(self, image: Image) -> tuple[str, PictureRegions] | None:
        """The latest regions of a ready picture and the digest of their extractor; None where there are none yet."""
        assert image.slot is not None
        for digest in dict.fromkeys([image.extractor, self.extractor]):
            store = None if digest is None else self.of(digest)
            if digest is not None and store is not None and self.has_record(digest, image.slot):
                return digest, store.regions(image.slot)
        return None

    def close(self) -> None:
        """Close the files."""
        with self._lock:
            for store in self._stores.values():
                store.close()
            self._stores.clear()
