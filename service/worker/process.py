"""A worker as a process: opened on a data directory, ended by a signal or with the process that started it."""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from index.catalog import Catalog
from index.lock import Locked, WriterLock
from index.slab import Slab
from models.extractors.base import Extractor
from models.matching.matcher import Matcher
from service.errors import Misconfigured
from service.media.decode_pool import DecodePool
from service.settings import Settings
from service.storage.incoming import remove_abandoned_uploads
from service.storage.originals import Originals
from service.storage.region_records import region_layout
from service.worker.repair import mend
from service.worker.view_builder import KeptView
from service.worker.wakeups import Wakeups, open_wakeups
from service.worker.worker import Worker

CATALOG, REGIONS, VIEWS, EXTRACTOR = "catalog.sqlite", "regions", "views", "extractor"
LOCK_PATIENCE_S = 15.0  # a worker whose parent was killed needs a moment to notice

log = logging.getLogger(__name__)


@contextmanager
def open_worker(
    settings: Settings, extractor: Extractor, matchers: Sequence[Matcher]
) -> Iterator[tuple[Worker, Wakeups]]:
    """A worker on settings.data_dir that keeps a view for each matcher, and its wake-ups.

    Locked when there is another worker; ValueError when extractor, matchers and what is stored do not belong together.
    """
    folder = settings.data_dir
    with ExitStack() as stack:
        stack.enter_context(_lock(folder))
        catalog = stack.enter_context(closing(Catalog(folder / CATALOG)))
        refuse_other_extractor(catalog, extractor.digest)
        views = [
            stack.enter_context(closing(KeptView(matcher, folder / VIEWS / matcher.digest, extractor)))
            for matcher in {matcher.digest: matcher for matcher in matchers}.values()
        ]
        layout = region_layout(extractor.num_regions, extractor.feature_dim)
        slab = stack.enter_context(closing(Slab.open(folder / REGIONS, layout, write=True)))
        originals = Originals(folder)
        remove_abandoned_uploads(originals.incoming)
        pool = stack.enter_context(DecodePool.from_settings(settings))
        mend(slab, catalog, originals, pool, extractor, settings.detect_batch)
        worker = Worker(
            catalog=catalog,
            originals=originals,
            slab=slab,
            extractor=extractor,
            views=views,
            pool=pool,
            batch=settings.detect_batch,
        )
        yield worker, stack.enter_context(closing(open_wakeups(settings.redis_url, catalog)))


def serve_worker(settings: Settings, extractor: Extractor, matchers: Sequence[Matcher], end_with_stdin: bool) -> None:
    """Work until SIGTERM or SIGINT, after the batch in hand; at once when stdin ends, if that is asked for."""
    if end_with_stdin:
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with open_worker(settings, extractor, matchers) as (worker, wakeups):
        log.info("worker on %s", settings.data_dir)
        worker.run(wakeups, stop)


def refuse_other_extractor(catalog: Catalog, digest: str) -> None:
    """Misconfigured when the stored pictures were made by another extractor: features of two do not mix."""
    stored = stored_extractor(catalog)
    if stored is not None and stored != digest:
        raise Misconfigured(
            f"The stored regions were found by the extractor {stored}, this one is {digest}."
            " Start with the detector of then (REGARD_DETECTOR; unset for features made elsewhere), or use another"
            " data directory (REGARD_DATA_DIR)."
        )


def stored_extractor(catalog: Catalog) -> str | None:
    """The digest of what made the last stored regions; None where there are none."""
    count = catalog.num_slots()
    images = catalog.images_at(range(max(0, count - 100), count))
    return next((image.extractor for image in reversed(images) if image is not None), None)


def _lock(folder: Path) -> WriterLock:
    end = time.monotonic() + LOCK_PATIENCE_S
    while True:
        try:
            return WriterLock(folder)
        except Locked:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def _end_with_stdin() -> None:
    # The other end is held by the parent alone: it closes with the parent, however that dies.
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os._exit(0)  # as good as a kill, and as harmless
