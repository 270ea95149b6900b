"""The parts of the web side, wired: the one place where settings turn into objects."""

import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from index.catalog import Catalog
from service.api.accelerator import AcceleratorQueue
from service.api.cache import LocalCache, RedisCache, ResultCache
from service.api.job_progress import JobProgress
from service.api.metrics import Metrics
from service.ingest.intake import Intake
from service.media.decode_pool import DecodePool
from service.model_loading import LoadedModels
from service.search.engine import SearchEngine
from service.search.model_views import ModelView, ModelViews, ViewRefresher
from service.settings import Settings
from service.storage.data_dir import DataDir
from service.storage.extractor_identity import check_extractor
from service.storage.originals import Originals
from service.storage.region_stores import RegionStores

SEARCH_THREADS = 16  # queries that read, filter and look up side by side; their scoring takes turns

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Services:
    """Everything that routes need."""

    settings: Settings
    catalog: Catalog
    originals: Originals
    regions: RegionStores
    models: ModelViews
    refresher: ViewRefresher
    search: SearchEngine
    search_threads: ThreadPoolExecutor
    accelerator: AcceleratorQueue
    cache: ResultCache
    pool: DecodePool
    intake: Intake
    progress: JobProgress
    metrics: Metrics
    wake: Callable[[str], None]
    clock: Callable[[], float]

    def start(self) -> None:
        """Open the views, and start the threads that follow them and that own the accelerator."""
        self.refresher.start()
        self.accelerator.start()

    async def close(self) -> None:
        """Finish what runs, turn away what waits, close files and connections."""
        self.accelerator.close()
        self.search_threads.shutdown()
        self.refresher.close()
        self.pool.close()
        await self.cache.close()
        self.models.close()
        self.regions.close()
        self.catalog.close()


def build_services(
    settings: Settings,
    loaded: LoadedModels,
    wake: Callable[[str], None],
    clock: Callable[[], float] = time.time,
) -> Services:
    """The web side over a data directory; `wake` tells a worker of a new job. Nothing runs before `start`.

    ValueError where what is stored was made by another detector, and cannot be found anew with this one.
    """
    data = DataDir(settings.data_dir)
    catalog = Catalog(data.catalog)
    check_extractor(catalog, loaded.extractor)
    originals = Originals(settings.data_dir)
    regions = RegionStores(data, catalog, loaded.extractor)
    models = ModelViews(
        [
            ModelView(name, matcher, data.view(matcher.digest), maintained=name in loaded.views)
            for name, matcher in loaded.matchers.items()
        ],
        catalog,
        regions,
    )
    accelerator = AcceleratorQueue(settings.queue_cost)
    metrics = Metrics()
    add_gauges(metrics, catalog, models, regions, accelerator, clock)
    return Services(
        settings=settings,
        catalog=catalog,
        originals=originals,
        regions=regions,
        models=models,
        refresher=ViewRefresher(models),
        search=SearchEngine(catalog, regions, models, loaded.extractor),
        search_threads=ThreadPoolExecutor(SEARCH_THREADS, thread_name_prefix="search"),
        accelerator=accelerator,
        cache=result_cache(settings),
        pool=DecodePool.from_settings(settings),
        intake=Intake.from_settings(
            settings, catalog, originals, wake, accepts_pictures=loaded.extractor.accepts_pictures
        ),
        progress=JobProgress(catalog, models),
        metrics=metrics,
        wake=wake,
        clock=clock,
    )


def result_cache(settings: Settings) -> ResultCache:
    """Redis where there is one, this process's memory otherwise."""
    if settings.redis_url is None:
        return LocalCache(settings.cache_entries)
    return RedisCache.connect(settings.redis_url, settings.cache_seconds)


def add_gauges(
    metrics: Metrics,
    catalog: Catalog,
    models: ModelViews,
    regions: RegionStores,
    accelerator: AcceleratorQueue,
    clock: Callable[[], float],
) -> None:
    """Let the metrics read queue, store and worker whenever they are asked."""

    def pictures(state: str) -> Callable[[], float]:
        return lambda: catalog.counts()[state]

    for state in ("ready", "queued", "failed", "deleted"):
        metrics.gauge(f"pictures_{state}", f"Pictures that are {state}.", pictures(state))
    metrics.gauge("queue_cost", "Cost of the work admitted to the accelerator.", lambda: accelerator.admitted_cost)
    metrics.gauge(
        "view_pictures", "Pictures the default model can find.", lambda: models.default.state(catalog).pictures
    )
    metrics.gauge(
        "pictures_to_migrate",
        "Pictures whose regions a new detector has yet to find.",
        lambda: 0 if (progress := regions.progress()) is None else progress.total - progress.done,
    )
    metrics.gauge(
        "worker_silence_seconds",
        "Seconds since a worker was heard from.",
        lambda: clock() - (catalog.last_heartbeat("worker") or 0.0),
    )
