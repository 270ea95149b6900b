"""The parts of the web side, wired: the one place where settings turn into objects."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, ExitStack, closing
from dataclasses import dataclass

from index.catalog.catalog import Catalog
from service.api.admission.accelerator import AcceleratorQueue
from service.api.admission.capacity import Capacity
from service.api.cache import LocalCache, ResultCache
from service.api.collection import OwnParts, ServedCollection, own_collection
from service.api.first_use import ModelLoader
from service.api.local_storage import LocalStorage
from service.api.metrics import Metrics
from service.api.picture_files import PictureFiles
from service.api.schemas.results import answer_format
from service.api.tracing import Tracing
from service.auth.key_ring import KeyRing
from service.ingest.intake import Intake
from service.ingest.multipart import FormLimits
from service.media.decode_pool import DecodePool
from service.model_loading import LoadedModels
from service.model_names import loading_advice
from service.search.model_views import ModelView, ModelViews, ViewRefresher
from service.settings import Settings
from service.storage.data_dir import DataDir
from service.storage.disk import FreeSpace

STATES_COUNTED = ("ready", "queued", "failed", "deleted")  # of pictures, by metrics

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Services:
    """Everything that routes need."""

    settings: Settings
    storage: LocalStorage
    collection: ServedCollection
    capacity: Capacity
    models: ModelViews
    refresher: ViewRefresher
    loader: ModelLoader
    cache: ResultCache
    pool: DecodePool
    picture_files: PictureFiles
    intake: Intake
    keys: KeyRing
    metrics: Metrics
    tracing: Tracing
    ending: threading.Event
    """Set once the service is told to end: event streams end then, and whoever follows a job asks the next process."""
    wake: Callable[[], None]
    clock: Callable[[], float]

    def start(self) -> None:
        """Open the views, and start the threads that follow them and that own the accelerator."""
        self.refresher.start()
        self.capacity.accelerator.start()
        self.capacity.accelerator.enqueue(0, self.collection.search.costs.measure)

    def separate_cache_from_copies(self) -> None:
        """Keep hand-made copies of the data directory from reading this one's answers in Redis.

        To be called once at each start.
        """
        if self.settings.redis_url is not None and not self.storage.catalog.read_only:
            self.storage.catalog.skip_versions()

    async def close(self) -> None:
        """Finish what runs, turn away what waits, close files and connections: all of them, whatever one raises."""
        loop, capacity = asyncio.get_running_loop(), self.capacity
        async with AsyncExitStack() as stack:  # which goes from its last entry to its first
            for part in (self.storage, self.models, self.keys):
                stack.callback(part.close)
            stack.push_async_callback(capacity.rate_limiter.close)
            for other in (self.cache, self.pool, self.refresher):
                stack.callback(other.close)
            stack.callback(capacity.threads.close)
            for work in (self.tracing.close, self.loader.close):
                stack.push_async_callback(loop.run_in_executor, capacity.threads.lookup, work)
            stack.callback(capacity.accelerator.close)


def build_services(
    settings: Settings,
    loaded: LoadedModels,
    wake: Callable[[], None],
    clock: Callable[[], float] = time.time,
    processes: int = 1,
    collection: Callable[[OwnParts], ServedCollection] = own_collection,
) -> Services:
    """The web side of a collection, by default that of the data directory. Nothing runs before `start`.

    `wake` tells a worker to look for work; `processes` is how many such processes there are on one port. ValueError
    where what is stored was made by another detector, and cannot be found anew with this one.
    """
    with ExitStack() as opened:
        storage = opened.enter_context(closing(LocalStorage.open(settings, loaded.extractor)))
        models = model_views(settings, loaded, storage)
        served = collection(OwnParts(storage, models, loaded.extractor, clock))
        capacity = Capacity.from_settings(settings, processes, served.is_remote)
        opened.callback(capacity.threads.close)
        pool = DecodePool.from_settings(settings, readable=storage.originals.picture_folders)
        services = Services(
            settings=settings,
            storage=storage,
            collection=served,
            capacity=capacity,
            models=models,
            refresher=ViewRefresher(models),
            loader=ModelLoader(),
            cache=result_cache(settings, storage.catalog),
            pool=pool,
            picture_files=PictureFiles(storage.originals, pool, storage.catalog.read_only),
            intake=Intake(
                storage.catalog,
                storage.originals,
                upload_limits(settings),
                pool.inspect,
                wake,
                space=storage.space,
                clock=clock,
                accepts_pictures=loaded.extractor.accepts_pictures,
                delete_grace_s=settings.delete_grace_s,
                store=served.store,
            ),
            keys=opened.enter_context(closing(KeyRing(DataDir(settings.data_dir).keys, clock))),
            metrics=metrics_of(storage.space, capacity.accelerator, served, processes),
            tracing=Tracing.from_settings(settings),
            ending=threading.Event(),
            wake=wake,
            clock=clock,
        )
        opened.pop_all()
    return services


def upload_limits(settings: Settings) -> FormLimits:
    """The sizes and numbers of files up to which a form of pictures is received."""
    return FormLimits(
        max_file_bytes=settings.max_file_bytes, max_body_bytes=settings.max_body_bytes, max_files=settings.max_files
    )


def model_views(settings: Settings, loaded: LoadedModels, storage: LocalStorage) -> ModelViews:
    """The views of all models that are served."""
    data = DataDir(settings.data_dir)
    views = [
        ModelView(name, model, data.view(model.header.digest), maintained=name in loaded.views)
        for name, model in loaded.models.items()
    ]
    return ModelViews(views, storage.catalog, storage.regions, lambda name: loading_advice(name, settings.models))


def metrics_of(space: FreeSpace, accelerator: AcceleratorQueue, served: ServedCollection, processes: int) -> Metrics:
    """The metrics of one of `processes` web processes, with gauges that read its collection whenever they are asked."""
    metrics = Metrics(shared=processes > 1)
    metrics.gauge("disk_free_bytes", "Bytes free on the disk of the data directory.", lambda: space.free)
    metrics.gauge("queue_cost", "Cost of the work admitted to the accelerator.", lambda: accelerator.admitted_cost)
    meanings = {f"pictures_{state}": f"Pictures that are {state}." for state in STATES_COUNTED}

    def read() -> Mapping[str, float]:
        counts = served.pictures.counts()
        return {f"pictures_{state}": counts[state] for state in STATES_COUNTED}

    metrics.gauges(meanings, read)
    for gauge in served.gauges:
        metrics.gauge(*gauge)
    return metrics


def result_cache(settings: Settings, catalog: Catalog) -> ResultCache:
    """Redis where there is one, this process's memory otherwise."""
    if settings.redis_url is None:
        return LocalCache(settings.cache_entries)
    from service.api.redis_cache import RedisCache  # noqa: PLC0415 - the client comes with it

    return RedisCache.connect(settings.redis_url, settings.cache_seconds, catalog.collection(), answer_format())
