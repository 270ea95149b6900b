"""The collection that a web process serves: that of its own data directory, or one stored elsewhere."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from index.catalog.ingestion.processes import WORKER
from models.extractors.base import Extractor
from service.api.job_progress import JobProgress, JobStates
from service.api.local_storage import LocalStorage
from service.api.original_files import LocalOriginalFiles, OriginalFiles
from service.api.stored_pictures import LocalPictures, StoredPictures
from service.ingest.picture_store import LocalPictureStore, PictureStore
from service.search.engine import SearchEngine
from service.search.local_gallery import LocalGalleries
from service.search.model_views import ModelViews


class OwnParts(NamedTuple):
    """The parts of a web process over its own data directory, and its detector and clock."""

    storage: LocalStorage
    models: ModelViews
    extractor: Extractor
    clock: Callable[[], float]


class Gauge(NamedTuple):
    """A metric whose value is read at each scrape, None for no value."""

    name: str
    meaning: str
    read: Callable[[], float | None]


@dataclass(frozen=True, kw_only=True)
class ServedCollection:
    """The parts of the web side that differ by where the collection is stored."""

    pictures: StoredPictures
    original_files: OriginalFiles
    search: SearchEngine
    progress: JobStates
    store: PictureStore
    """Takes uploads in."""
    gauges: Sequence[Gauge] = ()
    """Metrics besides the numbers of pictures."""
    checks: Mapping[str, Callable[[], str]] | None = None
    """Functions of /readyz besides those of models, each returning `ok` or what is wrong; None: those of this data
    directory."""
    is_remote: bool = False
    """Whether to begin a search is to wait for other machines."""


def own_collection(own: OwnParts) -> ServedCollection:
    """The collection of the process's own data directory."""
    storage, models = own.storage, own.models
    catalog, regions = storage.catalog, storage.regions
    return ServedCollection(
        pictures=LocalPictures(catalog, models),
        original_files=LocalOriginalFiles(storage.originals),
        search=SearchEngine(LocalGalleries(catalog, regions, models, own.extractor), models, own.extractor),
        progress=JobProgress(catalog, models),
        store=LocalPictureStore(catalog, storage.originals),
        gauges=[
            Gauge(
                "view_pictures", "Pictures the default model can find.", lambda: models.default.state(catalog).pictures
            ),
            Gauge(
                "pictures_to_migrate",
                "Pictures whose regions a new detector has yet to find.",
                lambda: 0 if (progress := regions.progress()) is None else progress.total - progress.done,
            ),
            Gauge(
                "worker_silence_seconds",
                "Seconds since a worker was heard from; none before the first time.",
                lambda: None if (heard := catalog.processes.last_heartbeat(WORKER)) is None else own.clock() - heard,
            ),
        ],
    )
