"""The stores of a web process's own data directory."""

from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from index.catalog.catalog import Catalog
from models.extractors.base import Extractor
from service.settings import Settings
from service.storage.data_dir import DataDir
from service.storage.disk import FreeSpace
from service.storage.originals import Originals
from service.storage.regions.extractor_identity import check_extractor
from service.storage.regions.stores import RegionStores


@dataclass(frozen=True, kw_only=True)
class LocalStorage:
    """Everything that is stored in the data directory, but views and keys."""

    catalog: Catalog
    originals: Originals
    regions: RegionStores
    space: FreeSpace
    received: TemporaryDirectory[str] | None
    """Where pictures to ask with are received if the data directory may not be written."""

    @classmethod
    def open(cls, settings: Settings, extractor: Extractor) -> Self:
        """The stores of the data directory. ValueError where what is stored was made by another detector, and cannot be
        found anew with this one."""
        data = DataDir(settings.data_dir)
        with ExitStack() as opened:
            catalog = opened.enter_context(closing(Catalog(data.catalog)))
            check_extractor(catalog, extractor)
            received = TemporaryDirectory(prefix="regard-") if catalog.read_only else None
            if received is not None:
                opened.callback(received.cleanup)
            incoming = None if received is None else Path(received.name)
            storage = cls(
                catalog=catalog,
                originals=Originals(settings.data_dir, write=not catalog.read_only, incoming=incoming),
                regions=RegionStores(data, catalog, extractor),
                space=FreeSpace(settings.data_dir, settings.disk_reserve_bytes),
                received=received,
            )
            opened.pop_all()
        return storage

    def close(self) -> None:
        """Close everything, whatever one raises."""
        with ExitStack() as stack:  # which goes from its last entry to its first
            if self.received is not None:
                stack.callback(self.received.cleanup)
            stack.callback(self.catalog.close)
            stack.callback(self.regions.close)
