"""Perceptual hashes for pictures stored before these were kept, computed while there is nothing else to do."""

import logging

from index.records import QueuedPicture
from service.media.decode_pool import DecodeFailed
from service.media.perceptual_hash import NO_HASH, perceptual_hash
from service.worker.open_store import OpenStore

HASHED_AT_ONCE = 16

log = logging.getLogger(__name__)


class MissingHashes:
    """Computes missing hashes, once in the life of a worker: new pictures come with theirs."""

    def __init__(self, store: OpenStore) -> None:
        self._hashes, self._originals, self._pool = store.catalog.hashes, store.originals, store.pool
        self._heartbeat = store.heartbeat
        self._complete = False
        self._given_up = set[str]()  # ids of pictures that this worker does not try again

    def advance(self) -> bool:
        """Compute the next few hashes; False when none is missing."""
        if self._complete:
            return False
        missing = self._hashes.missing(HASHED_AT_ONCE + len(self._given_up))
        tried = {picture.image_id: self._hash(picture) for picture in missing if picture.image_id not in self._given_up}
        if hashes := {image_id: value for image_id, value in tried.items() if value is not None}:
            self._hashes.add(hashes)
        self._given_up.update(tried.keys() - hashes.keys())
        if not tried:
            self._hashes.end_round()
        self._complete = not tried
        return bool(tried)

    def _hash(self, picture: QueuedPicture) -> bytes | None:
        """The hash; NO_HASH if the picture cannot be decoded, None if it may be decodable at the worker's next
        start."""
        self._heartbeat.beat()
        try:
            path = self._originals.path(picture.image_id, picture.extension)
            return perceptual_hash(self._pool.decode(path).picture)
        except DecodeFailed as failed:
            log.warning("picture %s is left out of near duplicates: %s", picture.image_id, failed.reason)
            return NO_HASH if failed.final else None
