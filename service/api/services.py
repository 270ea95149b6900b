"""The parts of the web side, wired: the one place where settings turn into objects."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from index.catalog import Catalog
from models.extractors.base import Extractor
from models.extractors.config import CONFIG_FILE
from models.extractors.registry import load_extractor
from models.matching.checkpoint import WEIGHTS
from models.matching.matcher import Matcher
from service.api.accelerator import Batcher
from service.api.cache import LocalCache, RedisCache, ResultCache
from service.api.job_progress import Progress
from service.api.metrics import Metrics
from service.ingest.intake import Intake
from service.media.decode_pool import DecodePool
from service.model_loading import DETECTOR, Misconfigured, load_models
from service.search.engine import Search
from service.search.model_views import Models, Served
from service.settings import Settings
from service.storage.originals import Originals
from service.storage.region_records import StoredRegions
from service.worker.process import CATALOG, EXTRACTOR, REGIONS, VIEWS, refuse_other_extractor

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
                what = "the detector here is" if made.sees else "the data directory holds features of"
                where = "REGARD_DETECTOR or REGARD_MODELS" if made.sees else "REGARD_MODELS or REGARD_DATA_DIR"
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
    if folder is None and data_dir is not None and (data_dir / EXTRACTOR / CONFIG_FILE).is_file():
        made = load_extractor(data_dir / EXTRACTOR, device)
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
    regions: StoredRegions
    models: Models
    search: Search
    batcher: Batcher
    cache: ResultCache
    pool: DecodePool
    intake: Intake
    progress: Progress
    metrics: Metrics
    clock: Callable[[], float]

    def start(self) -> None:
        """Start the thread that owns the accelerator."""
        self.batcher.start()

    async def close(self) -> None:
        """Finish what runs, turn away what waits, close files and connections."""
        self.batcher.close()
        self.pool.close()
        await self.cache.close()
        for served in self.models:
            served.close()
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
    catalog = Catalog(settings.data_dir / CATALOG)
    refuse_other_extractor(catalog, loaded.extractor.digest)
    originals = Originals(settings.data_dir)
    regions = StoredRegions(settings.data_dir / REGIONS, loaded.extractor)
    models = Models(
        [
            Served(name, matcher, settings.data_dir / VIEWS / matcher.digest, built=name in loaded.views)
            for name, matcher in loaded.matchers.items()
        ]
    )
    batcher = Batcher(settings.queue_cost)
    metrics = Metrics()
    watch(metrics, catalog, models, batcher, clock)
    return Services(
        settings=settings,
        catalog=catalog,
        originals=originals,
        regions=regions,
        models=models,
        search=Search(catalog, regions, models, loaded.extractor),
        batcher=batcher,
        cache=result_cache(settings),
        pool=DecodePool.from_settings(settings),
        intake=Intake.from_settings(settings, catalog, originals, wake, sees=loaded.extractor.sees),
        progress=Progress(catalog, models),
        metrics=metrics,
        clock=clock,
    )


def result_cache(settings: Settings) -> ResultCache:
    """Redis where there is one, this process's memory otherwise."""
    if settings.redis_url is None:
        return LocalCache(settings.cache_entries)
    return RedisCache.connect(settings.redis_url, settings.cache_seconds)


def watch(metrics: Metrics, catalog: Catalog, models: Models, batcher: Batcher, clock: Callable[[], float]) -> None:
    """Let the metrics read queue, store and worker whenever they are asked."""

    def pictures(state: str) -> Callable[[], float]:
        return lambda: catalog.counts()[state]

    for state in ("ready", "queued", "failed", "deleted"):
        metrics.gauge(f"pictures_{state}", f"Pictures that are {state}.", pictures(state))
    metrics.gauge("queue_cost", "Work waiting for the accelerator.", lambda: batcher.waiting_cost)
    metrics.gauge(
        "view_pictures", "Pictures the default model can find.", lambda: models.default.state(catalog).pictures
    )
    metrics.gauge(
        "worker_silence_seconds",
        "Seconds since a worker was heard from.",
        lambda: clock() - (catalog.last_heartbeat("worker") or 0.0),
    )
