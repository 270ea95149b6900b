"""Hashes of pictures that were taken in before such hashes were kept, made while nothing else is to do."""

import logging

from index.records import QueuedPicture
from service.media.decode_pool import DecodeFailed
from service.media.perceptual_hash import NO_HASH, perceptual_hash
from service.worker.open_store import OpenStore

HASHED_AT_ONCE = 16

log = logging.getLogger(__name__)


class MissingHashes:
    """Makes the hashes that are missing, once in the life of a worker: new pictures come with theirs."""

    def __init__(self, store: OpenStore) -> None:
        self._hashes, self._originals, self._pool = store.catalog.hashes, store.originals, store.pool
        self._heartbeat = store.heartbeat
        self._complete = False
        self._left = set[str]()  # pictures that this worker tries no more

    def advance(self) -> bool:
        """Make the next few; False when none is missing."""
        if self._complete:
            return False
        missing = self._hashes.missing(HASHED_AT_ONCE + len(self._left))
        each = {one.image_id: self._hash(one) for one in missing if one.image_id not in self._left}
        if made := {image_id: found for image_id, found in each.items() if found is not None}:
            self._hashes.add(made)
        self._left.update(each.keys() - made.keys())
        if not each:
            self._hashes.end_round()
        self._complete = not each
        return bool(each)

    def _hash(self, picture: QueuedPicture) -> bytes | None:
        """NO_HASH of a picture that cannot be decoded; None where it may be at the worker's next start."""
        self._heartbeat.beat()
        try:
            path = self._originals.path(picture.image_id, picture.extension)
            return perceptual_hash(self._pool.decode(path).picture)
        except DecodeFailed as failed:
            log.warning("picture %s is left out of near duplicates: %s", picture.image_id, failed.reason)
            return NO_HASH if failed.final else None
