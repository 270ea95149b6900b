"""Erasure: files and descriptions of deleted pictures are removed for good, once their deletion can no longer be
undone."""

import logging
from collections.abc import Callable

from index.catalog.catalog import Catalog
from index.fault_points import FaultPoint, reach
from service.clocks import Clocks
from service.storage.originals import Originals
from service.storage.regions.found_regions import FoundRegions

LOOK_EVERY_S = 1.0
PURGE_EVERY_S = 60.0  # a purge reads and writes the whole text index
ERASED_AT_ONCE = 100
GAP_PATIENCE_S = 1.0  # for running uploads to end, while new ones wait
BUSY_PAUSE_S = 10.0  # after an upload took longer, or during a snapshot
PATIENT_EVERY = 60  # failed tries: during a snapshot of hours, uploads must not wait again and again

log = logging.getLogger(__name__)


class Erasure:
    """Erases deleted pictures after a grace period. A kill at any point leaves work that the next turn completes."""

    def __init__(
        self,
        catalog: Catalog,
        originals: Originals,
        found: FoundRegions,
        grace_s: float,
        clocks: Clocks,
    ) -> None:
        self._erasures, self._originals, self._grace_s = catalog.erasures, originals, grace_s
        self._texts, self._found = catalog.texts, found
        self._clocks = clocks
        self._next = self._next_purge = self._next_removal = clocks.timer()
        self._failed_removals = 0  # since the last successful one

    def advance(self, end_detection: Callable[[], None] = lambda: None) -> bool:
        """Erase the next pictures; False when there were none, or the last check is recent.

        `end_detection` is called before pictures are erased. After the last one, the text index is purged of their
        words, and of those of changed captions.
        """
        if self._clocks.timer() < self._next:
            return False
        now = self._clocks.time_of_day()
        erased = removed = 0
        if self._erasures.are_due(now - self._grace_s):
            end_detection()
            erased = self._erasures.erase_deleted(now - self._grace_s, now, ERASED_AT_ONCE)
        if self._clocks.timer() >= self._next_removal:
            removed = self._remove_files()
        if removed:
            log.info("%d pictures were deleted for good", removed)
        if erased or removed:
            return True
        self._next = self._clocks.timer() + LOOK_EVERY_S
        if self._clocks.timer() >= self._next_purge:
            self._next_purge = self._clocks.timer() + PURGE_EVERY_S
            self._texts.purge()
        return False

    def _remove_files(self) -> int:
        """Remove the files of erased pictures, while no process stores pictures; the number of pictures."""
        if not self._erasures.being_erased(1):
            return 0
        patience_s = 0.0 if self._failed_removals % PATIENT_EVERY else GAP_PATIENCE_S
        with self._originals.removing(patience_s) as may_remove:
            self._failed_removals = 0 if may_remove else self._failed_removals + 1
            if not may_remove:
                self._next_removal = self._clocks.timer() + BUSY_PAUSE_S
            pictures = self._erasures.being_erased(ERASED_AT_ONCE) if may_remove else []
            for picture in pictures:
                reach(FaultPoint.ERASURE_FILES)
                self._originals.remove(picture.image_id, picture.extension)
                self._found.remove(picture.image_id)  # of a picture that was never ingested
                reach(FaultPoint.FILES_FORGOTTEN)
            self._erasures.forget(pictures)
        return len(pictures)
