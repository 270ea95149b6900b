"""The worker, the only writer: takes queued pictures, finds their regions, commits them, and keeps the views up.

Order of a batch: thumbnails, region records (fsync), one catalog transaction, views. Whatever a kill leaves
behind it is either committed or done again; nothing else has to be put right. While the regions of all pictures are
found anew (`migration.py`), new pictures are committed without theirs, and get them when their turn comes.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future

import torch

from index.catalog import Catalog
from index.records import DetectedPicture, QueuedPicture
from index.slab import Slab
from models.extractors.base import Extractor
from service.media.decode_pool import DecodedPicture, DecodeFailed, DecodePool
from service.storage.originals import Originals
from service.storage.region_records import Records
from service.worker.detection import packed_records
from service.worker.migration import Migration
from service.worker.view_builder import ViewBuilders
from service.worker.wakeups import Wakeups

ATTEMPTS_PER_PICTURE = 3
BEAT_S = 5.0
ROLE = "worker"

log = logging.getLogger(__name__)


class Worker:
    """Works off the catalog's queue. Hold the WriterLock."""

    def __init__(
        self,
        *,
        catalog: Catalog,
        originals: Originals,
        slab: Slab,
        extractor: Extractor,
        views: ViewBuilders,
        migration: Migration,
        pool: DecodePool,
        batch: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._catalog, self._originals, self._slab = catalog, originals, slab
        self._extractor, self._views, self._migration, self._pool = extractor, views, migration, pool
        self._batch, self._clock = batch, clock
        self._ahead: dict[str, Future[DecodedPicture]] = {}
        self._beaten = float("-inf")

    def run(self, wakeups: Wakeups, stop: threading.Event) -> None:
        """Work until `stop` is set and the batch in hand is done."""
        while not stop.is_set():
            if not self.run_once():
                wakeups.acknowledge()
                wakeups.wait(stop)

    def run_once(self) -> bool:
        """One batch of the queue and of the migration, and the views' next rows; False when there was nothing to do."""
        self._beat()
        pictures = self._catalog.queued(2 * self._batch)
        self._decode_ahead(pictures)
        self._ingest(pictures[: self._batch])
        migrated = self._migration.advance()
        advanced = self._views.catch_up(self._catalog, self._slab)
        return bool(pictures) or migrated or advanced

    def _beat(self) -> None:
        now = self._clock()
        if now - self._beaten >= BEAT_S:
            self._catalog.heartbeat(ROLE, now)
            self._beaten = now

    def _decode_ahead(self, pictures: Sequence[QueuedPicture]) -> None:
        """Have these decoded in their order: while a batch is with the detector, the next one is decoded."""
        wanted = {picture.image_id for picture in pictures}
        for image_id in self._ahead.keys() - wanted:  # deleted meanwhile
            self._ahead.pop(image_id).cancel()
        for picture in pictures:
            if picture.image_id not in self._ahead:
                path = self._originals.path(picture.image_id, picture.extension)
                thumbnail = self._originals.thumbnail(picture.image_id)
                self._ahead[picture.image_id] = self._pool.submit(path, thumbnail)

    def _ingest(self, batch: Sequence[QueuedPicture]) -> None:
        decoded: list[tuple[QueuedPicture, DecodedPicture]] = []
        for picture in batch:
            try:
                decoded.append((picture, self._ahead.pop(picture.image_id).result()))
            except DecodeFailed as failed:
                self._failed(picture, failed.reason, failed.final)
        if self._migration.filling:
            if decoded:
                self._commit(decoded, None)
            return
        for part, records in self._detected(decoded):
            self._slab.append(self._catalog.num_slots(), records)
            self._commit(part, self._extractor.digest)

    def _detected(
        self, decoded: Sequence[tuple[QueuedPicture, DecodedPicture]]
    ) -> Iterator[tuple[Sequence[tuple[QueuedPicture, DecodedPicture]], Records]]:
        """The region records of the pictures, together or, when one of them spoils it, one by one."""
        if not decoded:
            return
        try:
            records = packed_records(self._extractor, [one for _, one in decoded])
        except torch.AcceleratorError:
            raise  # the device is lost to this process and no picture is to blame: the next one starts afresh
        except Exception as error:  # whatever it is, one picture never stops the queue
            log.exception("detection failed for %s", ", ".join(picture.image_id for picture, _ in decoded))
            if len(decoded) == 1:
                self._failed(decoded[0][0], f"Finding regions failed: {error}", final=False)
                return
        else:
            yield decoded, records
            return
        for one in decoded:
            yield from self._detected([one])

    def _commit(self, part: Sequence[tuple[QueuedPicture, DecodedPicture]], extractor: str | None) -> None:
        """Make the pictures ready, in the next slots, where their records are; for None these are made later."""
        first = self._catalog.num_slots()
        self._catalog.commit(
            [
                DetectedPicture(
                    image_id=picture.image_id,
                    slot=slot,
                    width=decoded.width,
                    height=decoded.height,
                    extractor=extractor,
                    taken_at=decoded.taken_at,
                )
                for slot, (picture, decoded) in enumerate(part, start=first)
            ]
        )

    def _failed(self, picture: QueuedPicture, reason: str, final: bool) -> None:
        attempts = self._catalog.count_attempt(picture.image_id, reason)
        log.warning("picture %s, attempt %d: %s", picture.image_id, attempts, reason)
        if final or attempts >= ATTEMPTS_PER_PICTURE:
            self._catalog.set_aside(picture.image_id, reason, self._clock())
