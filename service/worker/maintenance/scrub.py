"""The scrub: all records, view rows and originals are read again and again, slowly, since disks lose data silently."""

import logging
from collections.abc import Iterator

from index.views.slab import DamagedRow
from service.storage.kept_images import kept_images
from service.storage.verification import original_fault
from service.worker.maintenance.repair import RecordRepair
from service.worker.open_store import OpenStore
from service.worker.view_builder import ViewBuilders

MOST_SAVED_S = 5.0  # of reading to catch up on at most, after the worker was busy

log = logging.getLogger(__name__)


class Scrub:
    """Reads everything stored at a set rate, and recomputes damaged records and view rows; a damaged original is
    logged."""

    def __init__(
        self,
        store: OpenStore,
        *,
        repair: RecordRepair,
        views: ViewBuilders,
        rate: float,
    ) -> None:
        """`rate`: bytes a second; 0 for no scrub."""
        self._catalog, self._originals, self._slab = store.catalog, store.originals, store.slab
        self._repair, self._views = repair, views
        self._rate, self._timer = rate, store.clocks.timer
        self._allowed, self._counted_at = 0.0, self._timer()
        self._round = self._read_all()
        self._logged: dict[str, str] = {}  # picture id -> fault of its original that was logged

    def advance(self) -> None:
        """Read as much as the rate now allows."""
        if not self._rate:
            return
        now = self._timer()
        self._allowed = min(self._allowed + self._rate * (now - self._counted_at), self._rate * MOST_SAVED_S)
        self._counted_at = now
        while self._allowed > 0:
            num_bytes = next(self._round, None)
            if num_bytes is None:  # the next round begins in another turn, even where there is nothing to read
                self._round = self._read_all()
                return
            self._allowed -= num_bytes

    def _read_all(self) -> Iterator[int]:
        """Read one part after the other, and yield the bytes of each."""
        yield from self._read_records()
        yield from self._views.check_rows(self._slab, self._repair.make_again)
        yield from self._read_originals()

    def _read_records(self) -> Iterator[int]:
        slot = 0
        while slot < self._repair.num_records():
            try:
                self._slab.check(slot)
            except DamagedRow as fault:
                log.error("%s", fault)
                self._repair.make_again(slot)
            yield self._slab.dtype.itemsize
            slot += 1

    def _read_originals(self) -> Iterator[int]:
        for image in kept_images(self._catalog):
            fault = original_fault(self._originals, image)
            if fault is None:
                self._logged.pop(image.image_id, None)
            elif fault != self._logged.get(image.image_id) and self._catalog.image(image.image_id) is not None:
                log.error("%s", fault)  # not in each round, and not for a picture erased meanwhile
                self._logged[image.image_id] = fault
            yield image.num_bytes
