"""The worker, the only writer: takes queued pictures, finds their regions, commits them, and keeps the views up.

Order of a batch: thumbnails and files to show, region records (fsync), one catalog transaction, views. Whatever a kill
leaves behind it is either committed or done again; nothing else has to be put right. While the regions of all pictures
are found anew (`migration.py`), new pictures are committed without theirs, and get them when their turn comes.
"""

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future

import numpy as np
import torch

from index.catalog import Catalog
from index.fault_points import FaultPoint, reach
from index.records import DetectedPicture, QueuedPicture
from index.slab import DamagedRow, Slab
from models.extractors.base import Extractor
from models.freed_memory import give_back_freed_memory
from service.media.decode_pool import DecodedPicture, DecodeFailed, DecodePool
from service.media.perceptual_hash import perceptual_hash
from service.storage.found_regions import FoundRegions
from service.storage.free_space import FreeSpace, is_disk_full
from service.storage.originals import Originals
from service.storage.region_records import Records
from service.worker.detection import ENDED_WORKER, MOST_STARTS, counted_start, packed_records
from service.worker.erasure import Erasure
from service.worker.migration import Migration
from service.worker.orphans import Orphans
from service.worker.picture_hashes import MissingHashes
from service.worker.repair import RecordRepair
from service.worker.reverse_geocoding import Places
from service.worker.scrub import Scrub
from service.worker.stripped_files import StrippedFiles
from service.worker.view_builder import ViewBuilders
from service.worker.wakeups import Wakeups

ATTEMPTS_PER_PICTURE = 3
ATTEMPTS_TIMED_OUT = 2  # each takes the whole time that decoding may take, and the queue waits
BEAT_S = 5.0
PAUSE_S = 5.0  # between two looks at a full disk
ROLE = "worker"
KEYWORDS = "keywords"  # the tag that holds those of a picture's file

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
        erasure: Erasure,
        space: FreeSpace,
        repair: RecordRepair,
        scrub: Scrub,
        batch: int,
        found: FoundRegions,
        places: Places | None = None,
        clock: Callable[[], float] = time.time,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        """`found` has regions of pictures that another process looked at; these go to no detector here.

        `places` names where pictures were taken, which is not looked at without them.

        `clock` tells the time of day, which may be set, `timer` how much of it has passed.
        """
        self._places, self._found = places, found
        self._catalog, self._originals, self._slab = catalog, originals, slab
        self._extractor, self._views, self._migration, self._pool = extractor, views, migration, pool
        self._space, self._paused = space, False
        self._repair, self._scrub = repair, scrub
        self._erasure, self._batch, self._clock, self._timer = erasure, batch, clock, timer
        self._stripping = StrippedFiles(catalog, originals, pool)
        self._missing_hashes = MissingHashes(catalog, originals, pool)
        self._orphans = Orphans(catalog, originals, timer)
        self._ahead: dict[str, Future[DecodedPicture]] = {}
        self._beaten = float("-inf")

    def run(self, wakeups: Wakeups, stop: threading.Event) -> None:
        """Work until `stop` is set and the batch in hand is done. A worker at rest keeps no freed memory."""
        worked = False
        while not stop.is_set():
            before, worked = worked, self.run_within_space(stop)
            if not worked:
                if before:
                    give_back_freed_memory()
                wakeups.acknowledge()
                wakeups.wait(stop)

    def run_within_space(self, stop: threading.Event) -> bool:
        """`run_once` where the disk has room; otherwise a pause, after which it is worth another look."""
        try:
            if self._space.enough_to_work():
                worked = self.run_once()
                self._paused = False
                return worked
            self._pause(stop, "little room is left")
        except (OSError, sqlite3.OperationalError) as fault:
            if not is_disk_full(fault):
                raise
            self._pause(stop, str(fault))
        return True

    def _pause(self, stop: threading.Event, why: str) -> None:
        if not self._paused:
            log.error("the disk is full (%s): the worker waits until there is room, and goes on by itself", why)
        self._paused = True
        self._forget_ahead()
        self._migration.forget_ahead()
        stop.wait(PAUSE_S)

    def _forget_ahead(self) -> None:
        for future in self._ahead.values():
            future.cancel()
        self._ahead.clear()

    def run_once(self) -> bool:
        """One batch of each kind of work, and the views' next rows; False when there was nothing to do."""
        self._beat()
        pictures = self._catalog.queued(2 * self._batch)
        self._decode_ahead(pictures)
        self._ingest(self._next_batch(pictures))
        migrated = self._migration.advance()
        advanced = self._extend_views()
        erased = self._erasure.advance()
        self._orphans.advance()
        self._scrub.advance()
        if pictures or migrated or advanced or erased:
            return True
        return self._stripping.advance() or self._missing_hashes.advance()

    def _extend_views(self) -> bool:
        try:
            return self._views.catch_up(self._catalog, self._slab)
        except DamagedRow as fault:
            log.error("%s", fault)
            self._repair.make_again(fault.row)
            return True

    def _beat(self) -> None:
        now = self._timer()
        if now - self._beaten >= BEAT_S:
            self._catalog.heartbeat(ROLE, self._clock())
            self._beaten = now

    def _next_batch(self, pictures: Sequence[QueuedPicture]) -> Sequence[QueuedPicture]:
        """The next pictures; one that a worker did not outlive comes alone, so that no other is suspected with it."""
        fresh = [picture for picture in pictures if not picture.starts]
        return fresh[: self._batch] or pictures[:1]

    def _decode_ahead(self, pictures: Sequence[QueuedPicture]) -> None:
        """Have these decoded in their order: while a batch is with the detector, the next one is decoded."""
        wanted = {picture.image_id for picture in pictures}
        for image_id in self._ahead.keys() - wanted:  # deleted meanwhile
            self._ahead.pop(image_id).cancel()
        for picture in pictures:
            if picture.image_id not in self._ahead:
                path = self._originals.path(picture.image_id, picture.extension)
                thumbnail = self._originals.thumbnail(picture.image_id)
                stripped = self._originals.stripped(picture.image_id, picture.extension)
                self._ahead[picture.image_id] = self._pool.submit(
                    path, thumbnail, stripped, with_position=self._places is not None
                )

    def _ingest(self, batch: Sequence[QueuedPicture]) -> None:
        decoded: list[tuple[QueuedPicture, DecodedPicture]] = []
        for picture in batch:
            try:
                found = self._ahead.pop(picture.image_id).result()
            except DecodeFailed as failed:
                attempts = ATTEMPTS_TIMED_OUT if failed.timed_out else ATTEMPTS_PER_PICTURE
                self._failed(picture, failed.reason, 1 if failed.final else attempts)
                continue
            if picture.starts >= MOST_STARTS:
                self._set_aside_killer(picture)
            else:
                decoded.append((picture, found))
        if self._migration.filling:
            if decoded:
                self._commit(decoded, None)
            return
        with counted_start(self._catalog.starts, [picture.image_id for picture, _ in decoded]):
            for part, records in self._regions_of(decoded):
                self._slab.append(self._catalog.num_slots(), records)
                reach(FaultPoint.SLAB_CATALOG)
                self._commit(part, self._extractor.digest)
                reach(FaultPoint.CATALOG_VIEWS)
                for picture, _ in part:
                    self._found.remove(picture.image_id)

    def _set_aside_killer(self, picture: QueuedPicture) -> None:
        log.error("picture %s: the worker ended %d times while it was with the detector", picture.image_id, MOST_STARTS)
        self._catalog.set_aside(picture.image_id, ENDED_WORKER, self._clock())

    def _regions_of(
        self, decoded: Sequence[tuple[QueuedPicture, DecodedPicture]]
    ) -> Iterator[tuple[Sequence[tuple[QueuedPicture, DecodedPicture]], Records]]:
        """The region records of the pictures: those that came with them, then those that are found here."""
        brought = [(one, self._found.get(one[0].image_id, self._extractor)) for one in decoded]
        ready = [(one, record) for one, record in brought if record is not None]
        if ready:
            yield (
                [one for one, _ in ready],
                {name: np.stack([record[name] for _, record in ready]) for name in ready[0][1]},
            )
        yield from self._detected([one for one, record in brought if record is None])

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
                self._failed(decoded[0][0], f"Finding regions failed: {error}", ATTEMPTS_PER_PICTURE)
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
                    looks=perceptual_hash(decoded.picture),
                    captions=[decoded.caption] if decoded.caption else [],
                    tags=self._tags(decoded),
                )
                for slot, (picture, decoded) in enumerate(part, start=first)
            ]
        )

    def _tags(self, decoded: DecodedPicture) -> dict[str, str]:
        """The description in the picture's file, as tags."""
        keywords = {KEYWORDS: "; ".join(decoded.keywords)} if decoded.keywords else {}
        return keywords if self._places is None else keywords | self._places.tags_of(decoded.position)

    def _failed(self, picture: QueuedPicture, reason: str, most_attempts: int) -> None:
        """Count a failed attempt: the picture goes to the back of the queue, or is set aside after the last one."""
        attempts = self._catalog.count_attempt(picture.image_id, reason)
        log.warning("picture %s, attempt %d: %s", picture.image_id, attempts, reason)
        if attempts >= most_attempts:
            self._catalog.set_aside(picture.image_id, reason, self._clock())
