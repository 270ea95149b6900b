"""Files to show of pictures that were taken in before such files were kept, made while nothing else is to do."""

import logging

from index.catalog import Catalog
from service.media.decode_pool import DecodeFailed, DecodePool
from service.storage.originals import Originals

PAGE = 200  # pictures looked at between two looks at the queue

log = logging.getLogger(__name__)


class StrippedFiles:
    """Goes once over all pictures in the life of a worker, and makes the files that are missing."""

    def __init__(self, catalog: Catalog, originals: Originals, pool: DecodePool) -> None:
        self._catalog, self._originals, self._pool = catalog, originals, pool
        self._last = 0  # number of the picture that was looked at last
        self._complete = False

    def advance(self) -> bool:
        """Look at the next pictures and make the first file that is missing; False when all have been looked at."""
        if self._complete:
            return False
        images = self._catalog.erasures.not_erased(self._last, PAGE)
        for self._last, image in images:
            if image.pictured and image.state == "ready" and self._make(image.image_id, image.extension):
                return True
        self._complete = len(images) < PAGE
        return not self._complete

    def _make(self, image_id: str, extension: str) -> bool:
        """Make the file where it is missing and can be made; whether that was tried."""
        original = self._originals.path(image_id, extension)
        if self._originals.find_stripped(image_id, extension) is not None or not original.is_file():
            return False
        try:
            self._pool.strip(original, self._originals.stripped(image_id, extension))
        except DecodeFailed as failed:
            log.warning("picture %s cannot be shown: %s", image_id, failed.reason)
        return True
