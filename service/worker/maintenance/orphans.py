"""Orphans: originals of uploads that failed or were killed before their pictures were added to the catalog."""

import logging
import time
from collections.abc import Callable

from index.catalog.catalog import Catalog
from service.storage.originals import Originals

ORPHANS_EVERY_S = 30.0

log = logging.getLogger(__name__)


class Orphans:
    """Removes orphans from time to time. Files that were never announced are left alone, whatever their origin."""

    def __init__(self, catalog: Catalog, originals: Originals, timer: Callable[[], float] = time.monotonic) -> None:
        self._arrivals, self._originals, self._timer = catalog.arrivals, originals, timer
        self._next = timer()

    def advance(self) -> None:
        """Remove orphans, unless the last check is recent, or some process is storing files."""
        if self._timer() < self._next:
            return
        self._next = self._timer() + ORPHANS_EVERY_S
        if not self._arrivals.open():
            return
        with self._originals.removing() as may_remove:
            files = self._arrivals.open() if may_remove else []
            for file, is_known in files:
                if not is_known:
                    log.warning("the upload of %s did not end: its file is removed", file.image_id)
                    self._originals.path(file.image_id, file.extension).unlink(missing_ok=True)
            self._arrivals.withdraw([file for file, _ in files])
