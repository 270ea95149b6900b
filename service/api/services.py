"""The parts of the web side, wired: the one place where settings turn into objects."""

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch

from index.catalog import Catalog
from models.extractors.base import Extractor
from models.extractors.config import CONFIG_FILE
from models.extractors.registry import load_extractor
from models.matching.checkpoint import WEIGHTS
from models.matching.matcher import Matcher
from service.api.accelerator import AcceleratorQueue
from service.api.cache import LocalCache, RedisCache, ResultCache
from service.api.job_progress import JobProgress
from service.api.metrics import Metrics
from service.errors import Misconfigured
from service.ingest.intake import Intake
from service.media.decode_pool import DecodePool
from service.model_loading import load_models
from service.model_names import DETECTOR
from service.search.engine import SearchEngine
from service.search.model_views import ModelView, ModelViews, ViewRefresher
from service.settings import Settings
from service.storage.data_dir import DataDir
from service.storage.extractor_identity import refuse_other_extractor
from service.storage.originals import Originals
from service.storage.region_records import RegionStore

SEARCH_THREADS = 16  # queries that read, filter and look up side by side; their scoring takes turns

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """The models that settings name, on their device."""

    extractor: Extractor
    matchers: dict[str, Matcher]  # the default first
    views: Sequence[str]  # names of those that pictures are encoded for

    @classmethod
    def from_settings(cls, settings: Settings, stored: bool = True) -> "Loaded":
        """Read weights from disk; Misconfigured where a model was made for another detector.

        Without `stored` it does not matter what the data directory holds.
        """
        if settings.threads is not None:
            torch.set_num_threads(settings.threads)
        device = device_of(settings.device)
        extractor = extractor_of(settings.detector, settings.data_dir if stored else None, device)
        loaded = cls(extractor=extractor, matchers=load_models(settings.models, device), views=settings.built_views)
        loaded.check()
        return loaded

    def check(self) -> None:
        """Misconfigured where a model was trained on another detector's features."""
        made = self.extractor
        for name, matcher in self.matchers.items():
            if matcher.extractor_digest != made.digest:
                what = "the detector here is" if made.accepts_pictures else "the data directory holds features of"
                where = (
                    "REGARD_DETECTOR or REGARD_MODELS" if made.accepts_pictures else "REGARD_MODELS or REGARD_DATA_DIR"
                )
                raise Misconfigured(
                    f"{name} was trained on features of detector {matcher.extractor_digest}, and {what} {made.digest}:"
                    f" set {where} so that they belong together"
                )
            if matcher.feature_dim != made.feature_dim:
                raise Misconfigured(
                    f"{name} reads features of {matcher.feature_dim} numbers, and those of {made.digest} have"
                    f" {made.feature_dim}: the name of the features is wrong in one of them"
                )


def extractor_of(folder: Path | None, data_dir: Path | None, device: str) -> Extractor:
    """The detector in a folder; for None, what made the features in the data directory, or else the shipped one."""
    extractor = detector_of(folder, device)
    if folder is None and data_dir is not None and (DataDir(data_dir).extractor / CONFIG_FILE).is_file():
        made = load_extractor(DataDir(data_dir).extractor, device)
        return extractor if extractor.digest == made.digest else made
    return extractor


def detector_of(folder: Path | None, device: str) -> Extractor:
    """The detector in a folder, the shipped one for None."""
    folder = folder or WEIGHTS / DETECTOR
    if not folder.is_dir():
        raise Misconfigured(f"there is no detector in {folder}")
    return load_extractor(folder, device)


def device_of(name: str) -> str:
    """The device that `auto` means here, or the one named."""
    if name != "auto":
        return name
    return "cuda" if torch.cuda.is_available() else "cpu"


@dataclass(frozen=True, kw_only=True)
class Services:
    """Everything that routes need."""

    settings: Settings
    catalog: Catalog
    originals: Originals
    regions: RegionStore
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
    loaded: Loaded,
    wake: Callable[[str], None],
    clock: Callable[[], float] = time.time,
) -> Services:
    """The web side over a data directory; `wake` tells a worker of a new job. Nothing runs before `start`.

    ValueError where what is stored was made by another detector.
    """
    data = DataDir(settings.data_dir)
    catalog = Catalog(data.catalog)
    refuse_other_extractor(catalog, loaded.extractor.digest)
    originals = Originals(settings.data_dir)
    regions = RegionStore(data.regions, loaded.extractor)
    models = ModelViews(
        [
            ModelView(name, matcher, data.view(matcher.digest), maintained=name in loaded.views)
            for name, matcher in loaded.matchers.items()
        ],
        catalog,
    )
    accelerator = AcceleratorQueue(settings.queue_cost)
    metrics = Metrics()
    add_gauges(metrics, catalog, models, accelerator, clock)
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
    metrics: Metrics, catalog: Catalog, models: ModelViews, accelerator: AcceleratorQueue, clock: Callable[[], float]
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
        "worker_silence_seconds",
        "Seconds since a worker was heard from.",
        lambda: clock() - (catalog.last_heartbeat("worker") or 0.0),
    )
