"""The only writer: takes queued pictures, finds their regions, commits them, and keeps the views up.

Order of a batch: thumbnails, region records (fsync), one catalog transaction, views. Whatever a kill leaves
behind it is either committed or done again; nothing else has to be put right.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from index.catalog import Catalog
from index.records import Picture, Ready
from index.slab import Slab
from models.extractors.base import Detections, Extractor
from service.media.decode_pool import DecodedPicture as Decoded
from service.media.decode_pool import DecodeFailed, DecodePool
from service.storage.originals import Originals
from service.worker.view_builder import KeptView
from service.worker.wakeups import Wakeups

MAX_ATTEMPTS = 3
BEAT_S = 5.0
ROLE = "worker"

Records = Mapping[str, npt.NDArray[Any]]
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
        views: Sequence[KeptView],
        pool: DecodePool,
        batch: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._catalog, self._originals, self._slab = catalog, originals, slab
        self._extractor, self._views, self._pool = extractor, views, pool
        self._batch, self._clock = batch, clock
        self._ahead: dict[str, Future[Decoded]] = {}
        self._beaten = float("-inf")

    def run(self, wakeups: Wakeups, stop: threading.Event) -> None:
        """Work until `stop` is set and the batch in hand is done."""
        while not stop.is_set():
            if not self.run_once():
                wakeups.acknowledge()
                wakeups.wait(stop)

    def run_once(self) -> bool:
        """One batch of the queue, and the views' next rows; False when there was nothing to do."""
        self._beat()
        pictures = self._catalog.queued(2 * self._batch)
        self._decode_ahead(pictures)
        self._ingest(pictures[: self._batch])
        # Every view takes its turn before the next batch, so that what is ingested is soon found.
        advanced = [view.catch_up(self._catalog, self._slab) for view in self._views]
        return bool(pictures) or any(advanced)

    def _beat(self) -> None:
        now = self._clock()
        if now - self._beaten >= BEAT_S:
            self._catalog.heartbeat(ROLE, now)
            self._beaten = now

    def _decode_ahead(self, pictures: Sequence[Picture]) -> None:
        """Have these decoded in their order: while a batch is with the detector, the next one is decoded."""
        wanted = {picture.image_id for picture in pictures}
        for image_id in self._ahead.keys() - wanted:  # deleted meanwhile
            self._ahead.pop(image_id).cancel()
        for picture in pictures:
            if picture.image_id not in self._ahead:
                path = self._originals.path(picture.image_id, picture.extension)
                thumbnail = self._originals.thumbnail(picture.image_id)
                self._ahead[picture.image_id] = self._pool.submit(path, thumbnail)

    def _ingest(self, batch: Sequence[Picture]) -> None:
        decoded: list[tuple[Picture, Decoded]] = []
        for picture in batch:
            try:
                decoded.append((picture, self._ahead.pop(picture.image_id).result()))
            except DecodeFailed as failed:
                self._failed(picture, failed.reason, failed.final)
        for part, records in self._detected(decoded):
            self._commit(part, records)

    def _detected(
        self, decoded: Sequence[tuple[Picture, Decoded]]
    ) -> Iterator[tuple[Sequence[tuple[Picture, Decoded]], Records]]:
        """The region records of the pictures, together or, when one of them spoils it, one by one."""
        if not decoded:
            return
        try:
            records = region_records(self._extractor, [one for _, one in decoded])
        except torch.AcceleratorError:
            raise  # the device is lost to this process and no picture is to blame: the next one starts afresh
        except Exception as error:  # the worker's door: one picture never stops the queue
            log.exception("detection failed for %s", ", ".join(picture.image_id for picture, _ in decoded))
            if len(decoded) == 1:
                self._failed(decoded[0][0], f"Finding regions failed: {error}", final=False)
                return
        else:
            yield decoded, records
            return
        for one in decoded:
            yield from self._detected([one])

    def _commit(self, part: Sequence[tuple[Picture, Decoded]], records: Records) -> None:
        first = self._catalog.num_slots()
        self._slab.append(first, records)
        self._catalog.commit(
            [
                Ready(
                    image_id=picture.image_id,
                    slot=slot,
                    width=decoded.width,
                    height=decoded.height,
                    extractor=self._extractor.digest,
                    taken_at=decoded.taken_at,
                )
                for slot, (picture, decoded) in enumerate(part, start=first)
            ]
        )

    def _failed(self, picture: Picture, reason: str, final: bool) -> None:
        attempts = self._catalog.tried(picture.image_id, reason)
        log.warning("picture %s, attempt %d: %s", picture.image_id, attempts, reason)
        if final or attempts >= MAX_ATTEMPTS:
            self._catalog.set_aside(picture.image_id, reason, self._clock())


def region_records(extractor: Extractor, decoded: Sequence[Decoded]) -> Records:
    """What the slab keeps of each picture; ValueError for features that are not numbers in fp16."""
    found: Detections = extractor.extract([one.picture for one in decoded]).to("cpu")
    features = found.features.half().numpy()
    if not np.isfinite(features).all():
        raise ValueError("the detector gave features that are not finite")
    scales = [(one.width / one.picture.width, one.height / one.picture.height) for one in decoded]
    scale = np.array([[x, y, x, y] for x, y in scales], dtype=np.float32)
    return {
        "features": features,
        "boxes": found.boxes.float().numpy() * scale[:, None],
        "labels": found.labels.numpy().astype(np.int16),
        "confidence": found.confidence.float().numpy(),
        "mask": found.mask.numpy(),
    }
