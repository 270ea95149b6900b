"""Creation of missing thumbnails and display copies, while there is nothing else to do.

Files are missing for pictures from before display copies were kept, after a power cut, or when somebody removed the
folders to have all files made again.
"""

import logging
from collections.abc import Callable

from index.records import Image
from service.media.decode_pool import DecodeFailed
from service.storage.disk import is_disk_full
from service.worker.decoding_ahead import files_to_make
from service.worker.open_store import OpenStore

PAGE = 200  # pictures checked between two reads of the queue

log = logging.getLogger(__name__)


class DerivedFiles:
    """Goes over all pictures once in the life of a worker, and makes missing files."""

    def __init__(self, store: OpenStore) -> None:
        self._catalog, self._originals, self._pool = store.catalog, store.originals, store.pool
        self._heartbeat = store.heartbeat
        self._last_number = 0  # of the picture checked last
        self._complete = False

    def advance(self) -> bool:
        """Check the next pictures and make the first missing files; False when all have been checked."""
        if self._complete:
            return False
        images = self._catalog.erasures.not_erased(self._last_number, PAGE)
        for self._last_number, image in images:
            if image.pictured and image.state == "ready" and self._make(image):
                return True
        self._complete = len(images) < PAGE
        return not self._complete

    def _make(self, image: Image) -> bool:
        """Make the picture's missing files if its original exists; returns whether that was tried."""
        original, thumbnail, stripped = files_to_make(self._originals, image)
        makers: list[Callable[[], object]] = []
        if thumbnail is not None:
            makers.append(lambda: self._pool.make_thumbnail(original, thumbnail))
        if stripped is not None:
            makers.append(lambda: self._pool.strip(original, stripped))
        if not makers or not original.is_file():
            return False
        try:
            for make in makers:
                self._heartbeat.beat()
                make()
        except DecodeFailed as failed:
            log.warning("picture %s cannot be shown: %s", image.image_id, failed.reason)
        except OSError as fault:
            if is_disk_full(fault):
                raise
            log.error("picture %s: %s", image.image_id, fault)
        return True
