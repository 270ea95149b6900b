"""The parts of the web side, wired: the one place where settings turn into objects."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from index.catalog.catalog import Catalog
from models.single_threads import usual_threads
from service.api.admission.accelerator import AcceleratorQueue
from service.api.admission.rate_limits import LocalRateLimiter, NoLimit, RateLimiter
from service.api.admission.request_slots import RequestSlots
from service.api.admission.request_threads import RequestThreads
from service.api.cache import LocalCache, ResultCache
from service.api.collection import OwnParts, ServedCollection, own_collection
from service.api.first_use import ModelLoader
from service.api.job_progress import JobStates
from service.api.metrics import Metrics
from service.api.original_files import OriginalFiles
from service.api.picture_files import PictureFiles
from service.api.schemas.results import answer_format
from service.api.stored_pictures import StoredPictures
from service.api.tracing import Tracing
from service.auth.key_ring import KeyRing
from service.ingest.intake import Intake
from service.ingest.multipart import FormLimits
from service.media.decode_pool import DecodePool
from service.model_loading import LoadedModels, device_of
from service.model_names import loading_advice
from service.search.engine import SearchEngine
from service.search.model_views import ModelView, ModelViews, ViewRefresher
from service.search.query import OpenQuery
from service.settings import Settings
from service.storage.data_dir import DataDir
from service.storage.disk import FreeSpace
from service.storage.originals import Originals
from service.storage.regions.extractor_identity import check_extractor
from service.storage.regions.stores import RegionStores

LIGHT_COST = 640_000  # by the threads inside an operator: of two, five times a usual query by the default model
STATES_COUNTED = ("ready", "queued", "failed", "deleted")  # of pictures, by metrics

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Services:
    """Everything that routes need."""

    settings: Settings
    catalog: Catalog
    pictures: StoredPictures
    originals: Originals
    uploads: TemporaryDirectory[str] | None
    space: FreeSpace
    regions: RegionStores
    models: ModelViews
    refresher: ViewRefresher
    search: SearchEngine
    loader: ModelLoader
    threads: RequestThreads
    accelerator: AcceleratorQueue
    cache: ResultCache
    pool: DecodePool
    picture_files: PictureFiles
    original_files: OriginalFiles
    intake: Intake
    upload_slots: RequestSlots
    decoding_slots: RequestSlots
    progress: JobStates
    stream_slots: RequestSlots
    archive_slots: RequestSlots
    ending: threading.Event
    """Set once the service is told to end: event streams end then, and whoever follows a job asks the next process."""
    keys: KeyRing
    rate_limiter: RateLimiter
    metrics: Metrics
    tracing: Tracing
    wake: Callable[[], None]
    clock: Callable[[], float]
    checks: Mapping[str, Callable[[], str]] | None = None
    """What /readyz looks at besides the models, each `ok` or what is wrong; None: this data directory."""

    def start(self) -> None:
        """Open the views, and start the threads that follow them and that own the accelerator."""
        self.refresher.start()
        self.accelerator.start()
        self.accelerator.enqueue(0, self.search.costs.measure)

    def is_light(self, query: OpenQuery[Any], cost: int) -> bool:
        """Whether a query of this cost is answered in one of the light threads, from its beginning to its end.

        There are as many of these as processors (`REGARD_THREADS`), those of all web processes together: more would
        wait for each other at the interpreter's lock, and do less in all. To change threads on the way takes as long
        as a part of the query.
        """
        return self.accelerator.is_light(cost) and not query.gallery.scores_elsewhere

    def separate_cache_from_copies(self) -> None:
        """Keep hand-made copies of the data directory from reading this one's answers in Redis.

        To be called once at each start.
        """
        if self.settings.redis_url is not None and not self.catalog.read_only:
            self.catalog.skip_versions()

    async def close(self) -> None:
        """Finish what runs, turn away what waits, close files and connections: all of them, whatever one raises."""
        loop = asyncio.get_running_loop()
        async with AsyncExitStack() as stack:  # which goes from its last entry to its first
            if self.uploads is not None:
                stack.callback(self.uploads.cleanup)
            for part in (self.catalog, self.regions, self.models, self.keys):
                stack.callback(part.close)
            stack.push_async_callback(self.rate_limiter.close)
            for other in (self.cache, self.pool, self.refresher):
                stack.callback(other.close)
            stack.callback(self.threads.close)
            for work in (self.tracing.close, self.loader.close):
                stack.push_async_callback(loop.run_in_executor, self.threads.lookup, work)
            stack.callback(self.accelerator.close)


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
    data = DataDir(settings.data_dir)
    with ExitStack() as opened:
        catalog = opened.enter_context(closing(Catalog(data.catalog)))
        check_extractor(catalog, loaded.extractor)
        # A picture to ask with can be received also where the data directory may not be written.
        uploads = TemporaryDirectory(prefix="regard-") if catalog.read_only else None
        if uploads is not None:
            opened.callback(uploads.cleanup)
        originals = Originals(
            settings.data_dir, write=not catalog.read_only, incoming=None if uploads is None else Path(uploads.name)
        )
        space = FreeSpace(settings.data_dir, settings.disk_reserve_bytes)
        regions = opened.enter_context(closing(RegionStores(data, catalog, loaded.extractor)))
        models = model_views(settings, loaded, catalog, regions)
        served = collection(OwnParts(catalog, originals, regions, models, loaded.extractor, clock))
        on_cpu = device_of(settings.device) == "cpu"  # whose work may be done in any thread; a GPU belongs to one
        # The more threads there are inside an operator, the sooner they pay.
        accelerator = AcceleratorQueue(
            settings.queue_cost, light_cost=LIGHT_COST // usual_threads() if on_cpu else None
        )
        pool = DecodePool.from_settings(settings, readable=originals.picture_folders)
        intake = Intake(
            catalog,
            originals,
            FormLimits(
                max_file_bytes=settings.max_file_bytes,
                max_body_bytes=settings.max_body_bytes,
                max_files=settings.max_files,
            ),
            pool.inspect,
            wake,
            space=space,
            clock=clock,
            accepts_pictures=loaded.extractor.accepts_pictures,
            delete_grace_s=settings.delete_grace_s,
            store=served.store,
        )
        services = Services(
            settings=settings,
            catalog=catalog,
            pictures=served.pictures,
            originals=originals,
            uploads=uploads,
            space=space,
            regions=regions,
            models=models,
            refresher=ViewRefresher(models),
            search=served.search,
            loader=ModelLoader(),
            threads=opened.enter_context(
                closing(RequestThreads.started(processes, light_first=on_cpu and not served.is_remote))
            ),
            accelerator=accelerator,
            cache=result_cache(settings, catalog),
            pool=pool,
            picture_files=PictureFiles(originals, pool, catalog.read_only),
            original_files=served.original_files,
            intake=intake,
            upload_slots=RequestSlots.of_uploads(settings.max_uploads),
            decoding_slots=RequestSlots.of_decoding(settings.max_uploads),
            progress=served.progress,
            stream_slots=RequestSlots.of_streams(),
            archive_slots=RequestSlots.of_archives(),
            ending=threading.Event(),
            keys=opened.enter_context(closing(KeyRing(data.keys, clock))),
            rate_limiter=open_rate_limiter(settings),
            metrics=metrics_of(space, accelerator, served, processes),
            tracing=Tracing.from_settings(settings),
            wake=wake,
            clock=clock,
            checks=served.checks,
        )
        opened.pop_all()
    return services


def model_views(settings: Settings, loaded: LoadedModels, catalog: Catalog, regions: RegionStores) -> ModelViews:
    """The views of all models that are served."""
    data = DataDir(settings.data_dir)
    views = [
        ModelView(name, model, data.view(model.header.digest), maintained=name in loaded.views)
        for name, model in loaded.models.items()
    ]
    return ModelViews(views, catalog, regions, lambda name: loading_advice(name, settings.models))


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


def open_rate_limiter(settings: Settings) -> RateLimiter:
    """The limiter that settings ask for."""
    if settings.rate_limit == 0:
        return NoLimit()
    if settings.redis_url is None:
        return LocalRateLimiter(settings.rate_limit, settings.rate_burst)
    from service.api.admission.redis_rate_limits import RedisRateLimiter  # noqa: PLC0415 - the client comes with it

    return RedisRateLimiter.connect(settings.redis_url, settings.rate_limit, settings.rate_burst)
