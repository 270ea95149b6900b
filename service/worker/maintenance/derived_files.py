"""Thumbnails and files to show that are missing, made while nothing else is to do.

Pictures were taken in before files to show were kept, a power cut may leave files without names, or somebody removed
the folders to have all files made anew.
"""

import logging
from collections.abc import Callable

from index.records import Image
from service.media.decode_pool import DecodeFailed
from service.storage.disk import is_disk_full
from service.worker.decoding_ahead import files_to_make
from service.worker.open_store import OpenStore

PAGE = 200  # pictures looked at between two looks at the queue

log = logging.getLogger(__name__)


class DerivedFiles:
    """Goes once over all pictures in the life of a worker, and makes the files that are missing."""

    def __init__(self, store: OpenStore) -> None:
        self._catalog, self._originals, self._pool = store.catalog, store.originals, store.pool
        self._heartbeat = store.heartbeat
        self._last = 0  # number of the picture that was looked at last
        self._complete = False

    def advance(self) -> bool:
        """Look at the next pictures and make the first file that is missing; False when all have been looked at."""
        if self._complete:
            return False
        images = self._catalog.erasures.not_erased(self._last, PAGE)
        for self._last, image in images:
            if image.pictured and image.state == "ready" and self._make(image):
                return True
        self._complete = len(images) < PAGE
        return not self._complete

    def _make(self, image: Image) -> bool:
        """Make the picture's files that are missing and can be made; whether that was tried."""
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
