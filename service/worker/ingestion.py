"""Ingestion: queued pictures are decoded, passed to the detector and committed, batch by batch.

While the detector has one batch, the next is decoded and the previous one is committed, so that the detector never
waits for a disk. The order for a batch: thumbnails and display copies, region records (fsync), one catalog transaction.
After a kill, each picture is either committed or processed again; no other recovery is needed.
"""

import logging
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np

from index.fault_points import FaultPoint, reach
from index.records import DetectedPicture, QueuedPicture
from service.media.decode_pool import DecodedPicture, DecodeFailed
from service.media.perceptual_hash import perceptual_hash
from service.storage.regions.found_regions import FoundRegions
from service.storage.regions.records import Records
from service.worker.decoding_ahead import DecodingAhead, files_to_make
from service.worker.detection import (
    ENDED_WORKER,
    MOST_STARTS,
    counted_start,
    detected_parts,
    ended_with_fault,
    packed_records,
)
from service.worker.filename_dates import date_in_name
from service.worker.open_store import OpenStore
from service.worker.reverse_geocoding import Places

ATTEMPTS_PER_PICTURE = 3
ATTEMPTS_TIMED_OUT = 2  # each takes the full time limit of decoding, and the queue waits
KEYWORDS = "keywords"  # the tag for the keywords of a picture's file

log = logging.getLogger(__name__)

Decoded: TypeAlias = tuple[QueuedPicture, DecodedPicture]


@dataclass(frozen=True)
class BatchInHand:
    """Decoded pictures whose starts are counted, while the detector works on them."""

    brought: list[tuple[Decoded, Records]]
    """Pictures that arrived with their regions."""
    others: list[Decoded]
    records: Future[Records] | None
    """Region records of the others; None where there are none."""

    @property
    def image_ids(self) -> list[str]:
        """The ids of all its pictures."""
        return [picture.image_id for picture, _ in [*(item for item, _ in self.brought), *self.others]]


class Ingestion:
    """Ingests the pictures of the catalog's queue. Hold the WriterLock."""

    def __init__(
        self,
        store: OpenStore,
        *,
        batch: int,
        found: FoundRegions,
        places: Places | None = None,
    ) -> None:
        """`found` has regions that other processes detected; these pictures skip the detector.

        `places` names the places where pictures were taken; without it, coordinates are not read.
        """
        self._catalog, self._slab = store.catalog, store.slab
        self._extractor, self._batch = store.extractor, batch
        self._heartbeat, self._clocks = store.heartbeat, store.clocks
        self._found, self._places = found, places
        files_of = partial(files_to_make, store.originals)
        self._ahead = DecodingAhead(store.pool, files_of, with_coordinates=places is not None)
        self._in_hand: BatchInHand | None = None
        self._detector = ThreadPoolExecutor(1, thread_name_prefix="detect")

    def advance(self, without_regions: bool, stop: threading.Event | None = None) -> bool:
        """Give the next batch to the detector and commit the previous one; False when there was nothing to do.

        The last batch of a queue is committed, too. `without_regions` commits pictures whose regions are detected
        later. A batch that the detector has not begun when `stop` is set stays queued.
        """
        pictures, worked = self._waiting(), self._in_hand is not None
        self._decode_ahead(pictures)
        batch = self._next_batch(pictures)
        is_suspect = any(picture.starts for picture in batch)  # alone in its batch, see _next_batch
        if is_suspect or not all(self._ahead.is_done(picture.image_id) for picture in batch):
            self.end_batch()  # so that it does not wait for a decoder
        decoded = self._decoded(batch)
        if not without_regions:
            self._go_on_with(self._begun(decoded, stop))  # if `_begun` raises, the previous batch stays in hand
            is_last = len(pictures) == len(batch)
            if is_suspect or is_last:
                self.end_batch()
        elif decoded:
            self._commit(decoded, None)
        return worked or bool(pictures)

    def end_batch(self) -> None:
        """Commit the detector's batch once it is done. A batch that it has not begun stays queued."""
        self._go_on_with(None)

    def _go_on_with(self, following: BatchInHand | None) -> None:
        """Commit the pictures of the batch in hand, each once the detector is done with it; `following`, or none, is in
        hand instead."""
        batch, self._in_hand = self._in_hand, following
        if batch is None:
            return
        with suppress(CancelledError), ended_with_fault(self._catalog.starts, batch.image_ids):
            for part, records in self._regions_of(batch):
                self._slab.append(self._catalog.num_slots(), records)
                reach(FaultPoint.SLAB_CATALOG)
                self._commit(part, self._extractor.digest)
                reach(FaultPoint.CATALOG_VIEWS)
                for picture, _ in part:
                    self._found.remove(picture.image_id)

    def forget_ahead(self) -> None:
        """Drop the pictures decoded ahead, to be decoded again in their turn."""
        self._ahead.forget()

    def close(self) -> None:
        """Leave the detector's batch to the next worker."""
        self._detector.shutdown(cancel_futures=True)
        if self._in_hand is not None:
            self._catalog.starts.take_back(self._in_hand.image_ids)
            self._in_hand = None

    def _waiting(self) -> list[QueuedPicture]:
        """The next pictures, up to two batches, without those that the detector has."""
        in_hand = self._in_hand.image_ids if self._in_hand else []
        queued = self._catalog.queue.waiting(2 * self._batch + len(in_hand))
        return [picture for picture in queued if picture.image_id not in in_hand][: 2 * self._batch]

    def _next_batch(self, pictures: Sequence[QueuedPicture]) -> Sequence[QueuedPicture]:
        """The next pictures; one whose detection may have crashed a worker comes alone, so that no other picture falls
        under suspicion."""
        fresh = [picture for picture in pictures if not picture.starts]
        return fresh[: self._batch] or pictures[:1]

    def _decode_ahead(self, pictures: Sequence[QueuedPicture]) -> None:
        """Have these pictures decoded in order."""
        self._ahead.keep({picture.image_id for picture in pictures})  # the others were deleted meanwhile
        for picture in pictures:
            self._ahead.begin(picture)

    def _decoded(self, batch: Sequence[QueuedPicture]) -> list[Decoded]:
        """The pictures that could be decoded and were not set aside."""
        decoded: list[Decoded] = []
        for picture in batch:
            self._heartbeat.beat()  # decoding may take its full time limit
            try:
                decoded_picture = self._ahead.take(picture)
            except DecodeFailed as failed:
                attempts = ATTEMPTS_TIMED_OUT if failed.timed_out else ATTEMPTS_PER_PICTURE
                self._failed(picture, failed.reason, 1 if failed.final else attempts)
                continue
            if picture.starts >= MOST_STARTS:
                self._set_aside_crasher(picture)
            else:
                decoded.append((picture, decoded_picture))
        return decoded

    def _set_aside_crasher(self, picture: QueuedPicture) -> None:
        log.error("picture %s: the worker ended %d times while it was with the detector", picture.image_id, MOST_STARTS)
        self._catalog.queue.set_aside(picture.image_id, ENDED_WORKER, self._clocks.time_of_day())

    def _begun(self, decoded: Sequence[Decoded], stop: threading.Event | None) -> BatchInHand | None:
        """The batch of these pictures, given to the detector; None where there are none."""
        if not decoded:
            return None
        with counted_start(self._catalog.starts, [picture.image_id for picture, _ in decoded]):
            with_records = [(item, self._found.get(item[0].image_id, self._extractor)) for item in decoded]
            others = [item for item, record in with_records if record is None]
            pictures = [picture for _, picture in others]
            records = self._detector.submit(self._records_unless, stop, pictures) if pictures else None
        brought = [(item, record) for item, record in with_records if record is not None]
        return BatchInHand(brought, others, records)

    def _records_unless(self, stop: threading.Event | None, pictures: Sequence[DecodedPicture]) -> Records:
        """The region records of the pictures; CancelledError where `stop` is set."""
        if stop is not None and stop.is_set():
            raise CancelledError
        return packed_records(self._extractor, pictures)

    def _regions_of(self, batch: BatchInHand) -> Iterator[tuple[Sequence[Decoded], Records]]:
        """The region records of the pictures: those that arrived with them, then those detected here."""
        if batch.brought:
            records = [record for _, record in batch.brought]
            together = {name: np.stack([record[name] for record in records]) for name in records[0]}
            yield [item for item, _ in batch.brought], together
        if batch.records is not None:
            pictures = [picture for _, picture in batch.others]
            for places, result in detected_parts(batch.records.result, pictures, self._find):
                part = [batch.others[place] for place in places]
                if not isinstance(result, str):
                    yield part, result
                    continue
                for picture, _ in part:
                    self._failed(picture, result, ATTEMPTS_PER_PICTURE)

    def _find(self, pictures: Sequence[DecodedPicture]) -> Records:
        """The region records of the pictures, detected in the detector's thread."""
        return self._detector.submit(packed_records, self._extractor, pictures).result()

    def _commit(self, part: Sequence[Decoded], extractor: str | None) -> None:
        """Make the pictures ready, in the next slots, where their records lie; with `extractor` None these come
        later."""
        first, now = self._catalog.num_slots(), self._clocks.time_of_day()
        self._catalog.commit(
            [
                DetectedPicture(
                    image_id=picture.image_id,
                    slot=slot,
                    width=decoded.width,
                    height=decoded.height,
                    extractor=extractor,
                    taken_at=decoded.taken_at,
                    date_in_name=date_in_name(picture.filename, now),
                    perceptual_hash=perceptual_hash(decoded.picture),
                    captions=[decoded.caption] if decoded.caption else [],
                    tags=self._tags(decoded),
                )
                for slot, (picture, decoded) in enumerate(part, start=first)
            ]
        )

    def _tags(self, decoded: DecodedPicture) -> dict[str, str]:
        """The metadata of the picture's file, as tags."""
        keywords = {KEYWORDS: "; ".join(decoded.keywords)} if decoded.keywords else {}
        return keywords if self._places is None else keywords | self._places.tags_of(decoded.coordinates)

    def _failed(self, picture: QueuedPicture, reason: str, most_attempts: int) -> None:
        """Count a failed attempt: the picture goes to the back of the queue, or is set aside after the last one."""
        attempts = self._catalog.queue.count_attempt(picture.image_id, reason)
        log.warning("picture %s, attempt %d: %s", picture.image_id, attempts, reason)
        if attempts >= most_attempts:
            self._catalog.queue.set_aside(picture.image_id, reason, self._clocks.time_of_day())
