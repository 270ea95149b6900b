"""The worker process: opens a data directory, and ends on a signal or with the process that started it."""

import logging
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager

from index.catalog.catalog import Catalog
from models.extractors.base import Extractor
from models.matching.lazy_matcher import LazyMatcher
from models.matching.matcher import Matcher
from service.clocks import THIS_MACHINE, Clocks
from service.media.decode_pool import DecodePool
from service.processes.signals import set_by_signals
from service.processes.supervisor import end_with_stdin
from service.settings import Settings
from service.storage.data_dir import DataDir
from service.storage.data_dir_lock import wait_for_lock
from service.storage.disk import FreeSpace
from service.storage.originals import Originals
from service.storage.regions.extractor_identity import check_extractor
from service.storage.regions.folders import describe_store, open_slab
from service.storage.regions.found_regions import FoundRegions
from service.storage.temporary_folders import remove_abandoned
from service.worker.heartbeat import Heartbeat
from service.worker.ingestion import Ingestion
from service.worker.maintenance.derived_files import DerivedFiles
from service.worker.maintenance.erasure import Erasure
from service.worker.maintenance.finished_jobs import FinishedJobs
from service.worker.maintenance.orphans import Orphans
from service.worker.maintenance.picture_hashes import MissingHashes
from service.worker.maintenance.repair import RecordRepair
from service.worker.maintenance.scrub import Scrub
from service.worker.migration import Migration, put_in_service
from service.worker.open_store import OpenStore
from service.worker.open_wakeups import open_wakeups
from service.worker.reverse_geocoding import Places
from service.worker.view_builder import ViewBuilders
from service.worker.wakeups import Wakeups
from service.worker.worker import Worker

log = logging.getLogger(__name__)


@contextmanager
def open_worker(
    settings: Settings,
    extractor: Extractor,
    matchers: Sequence[Matcher],
    on_request: Sequence[LazyMatcher] = (),
    clocks: Clocks = THIS_MACHINE,
) -> Iterator[tuple[Worker, Wakeups]]:
    """A worker on settings.data_dir and its wake-ups.

    It maintains a view for each of `matchers`, and for those of `on_request` whose views are requested. Where the
    stored regions are another extractor's, it detects them again. Locked when there is another worker; ValueError when
    extractor, matchers and stored data do not match.
    """
    data = DataDir(settings.data_dir)
    with ExitStack() as stack:
        stack.enter_context(wait_for_lock(data.root))
        catalog = stack.enter_context(closing(Catalog(data.catalog)))
        check_extractor(catalog, extractor)
        views = stack.enter_context(closing(ViewBuilders(matchers, on_request, data.view, extractor)))
        folder = data.root / put_in_service(catalog, extractor, clocks.time_of_day())
        slab = stack.enter_context(closing(open_slab(folder, extractor, is_empty=catalog.num_slots() == 0)))
        describe_store(folder, extractor)
        originals = Originals(data.root)
        remove_abandoned(originals.incoming)
        found = FoundRegions(data.root)
        with originals.removing() as may_remove:  # not during uploads, whose regions arrive before their pictures
            if may_remove:
                found.remove_stale(lambda image_id: image_id in catalog.queue.waiting_among([image_id]))
        pool = stack.enter_context(DecodePool.from_settings(settings, readable=originals.picture_folders))
        heartbeat = Heartbeat(catalog, clocks)
        store = OpenStore(catalog, originals, slab, extractor, pool, heartbeat, clocks)
        batch, places = settings.detect_batch, Places.installed() if settings.with_places else None
        ingestion = Ingestion(store, batch=batch, found=found, places=places)
        stack.callback(ingestion.close)
        repair = RecordRepair(store, ingestion.end_batch)
        repair.repair_tail(batch)
        worker = Worker(
            store,
            ingestion=ingestion,
            views=views,
            migration=Migration(store, data=data, views=views, batch=batch, end_detection=ingestion.end_batch),
            repair=repair,
            every_turn=[
                Orphans(catalog, originals, clocks.timer).advance,
                Scrub(store, repair=repair, views=views, rate=settings.scrub_rate).advance,
            ],
            when_idle=_steps_when_idle(store),
            space=FreeSpace(data.root, settings.disk_reserve_bytes),
            erasure=Erasure(catalog, originals, found, settings.delete_grace_s, clocks),
        )
        yield worker, stack.enter_context(closing(open_wakeups(settings.redis_url, catalog)))


def _steps_when_idle(store: OpenStore) -> list[Callable[[], bool]]:
    return [
        FinishedJobs(store.catalog, store.clocks).advance,
        DerivedFiles(store).advance,
        MissingHashes(store).advance,
    ]


def serve_worker(
    settings: Settings,
    extractor: Extractor,
    matchers: Sequence[Matcher],
    on_request: Sequence[LazyMatcher] = (),
    with_stdin: bool = False,
) -> None:
    """Work until SIGTERM or SIGINT, then finish the batch in hand; with `with_stdin`, end at once when stdin ends."""
    if with_stdin:
        end_with_stdin()
    stop = threading.Event()
    set_by_signals(stop, (signal.SIGTERM, signal.SIGINT))
    with open_worker(settings, extractor, matchers, on_request) as (worker, wakeups):
        log.info("worker on %s", settings.data_dir)
        worker.run(wakeups, stop)
