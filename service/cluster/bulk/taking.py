"""Batches of picture files taken into the shards by the process that decodes them and finds their regions.

A picture that the shards know is not looked at again, so that a run that was ended goes on where it was. Regions travel
with the pictures (`found_regions.py`): no replica looks for them.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

from index.records import Image
from service.cluster.bulk.files import (
    BulkLimits,
    NotTaken,
    OfferedFile,
    SpooledFile,
    check_bounds,
    is_said_already,
    picture_in,
    spooled_file,
    with_default_tags,
)
from service.cluster.messages import ShardLost
from service.cluster.routing.fan_out import READ_DEADLINE_S, all_answers
from service.cluster.routing.picture_store import ClusterPictureStore
from service.cluster.shards.lists import ShardLists
from service.errors import NotReady
from service.ingest.described_pictures import DescribedPictures
from service.ingest.filenames import display_name
from service.ingest.intake import AcceptedFile, IngestReceipt, RejectedFile, sorted_out
from service.ingest.picture_store import ReceivedPicture, TakenIn, file_outcomes
from service.storage.incoming import upload_folder
from service.worker.region_finder import RegionFinder

WAIT_S = 2.0
KNOWN_STATES = ("queued", "ready")  # of pictures that are there or on their way: they are not looked at again
SHARD_PATIENCE_S = 300.0  # with a shard that does not answer; one whose process was killed is back before
T = TypeVar("T")

log = logging.getLogger(__name__)


class BulkStore(Protocol):
    """The shards."""

    def images(self, image_ids: Sequence[str]) -> Mapping[str, Image]:
        """Id -> picture, of those that the shards have, in whatever state. Raises ShardLost where one of them does not
        answer."""

    def take_in(
        self,
        pictures: Sequence[ReceivedPicture],
        now: float,
        kept_since: float,
        job_id: str = "",
        regions: Mapping[str, bytes] | None = None,
    ) -> TakenIn:
        """A job of the pictures, with the regions of some of them by id. Raises NotReady where they cannot be taken
        just now."""


class ShardsOfBulk(ClusterPictureStore):
    """The shards of a cluster."""

    def images(self, image_ids: Sequence[str]) -> dict[str, Image]:
        """Id -> picture, of those that the shards have, in whatever state; while one is in two shards, as the one has
        it that it is moved from. Raises ShardLost where one of them does not answer."""
        places = {image_id: self._placement().places(image_id) for image_id in image_ids}
        placed = defaultdict[int, list[str]](list)
        for image_id, own in places.items():
            for shard in own:
                placed[shard].append(image_id)
        asked = {shard: (names,) for shard, names in placed.items()}
        answers = all_answers(self._fan_out, ShardLists.known_images, asked, deadline_s=READ_DEADLINE_S)
        found = ((name, answers[shard].get(name)) for name, own in places.items() for shard in own)
        return {name: image for name, image in found if image is not None}


class BulkTaker:
    """Takes files in, batch by batch. For one thread."""

    def __init__(
        self,
        finder: RegionFinder,
        folder: Path,
        store: BulkStore,
        limits: BulkLimits,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Files are copied below `folder`, which is there and which `finder` may read."""
        self._finder, self._folder = finder, folder
        self._store, self._limits = store, limits
        self._sleep, self._clock = sleep, clock

    def take(self, files: Sequence[OfferedFile], job_id: str) -> IngestReceipt:
        """Take files in; those that are new, or of which something new is said, as a job of this id.

        On return each is on disk in its shard, or rejected with the reason. The job's id is empty where there is none.
        """
        kept_since = (now := time.time()) - self._limits.delete_grace_s
        accepted: list[AcceptedFile] = []
        rejected: list[RejectedFile] = []
        spooled: list[SpooledFile] = []
        pictures: list[ReceivedPicture] = []
        with upload_folder(self._folder) as folder:
            for offered in files:
                with _noted(offered, rejected):
                    spooled.append(spooled_file(offered, folder, self._limits.max_file_bytes))
            try:
                images = self._patiently(lambda: self._store.images([one.image_id for one in spooled]))
                described = {key: image for key, image in images.items() if not image.is_gone(kept_since)}
                known = {key: image for key, image in images.items() if image.state in KNOWN_STATES}
                descriptions = DescribedPictures(described.get)
                for one in (with_default_tags(file, descriptions) for file in spooled):
                    if is_said_already(one.offered, known.get(one.image_id)):
                        accepted.append(AcceptedFile(one.image_id, display_name(one.offered.name), duplicate=True))
                        continue
                    with _noted(one.offered, rejected):
                        picture = picture_in(one, self._finder, known.get(one.image_id), self._limits)
                        check_bounds(one, descriptions)  # which counts what is said of it from now on
                        pictures.append(picture)
                if not pictures:
                    return IngestReceipt("", accepted, rejected)
                deleted = {key for key, image in described.items() if image.state == "deleted"}
                taken, refused = self._taken_in(pictures, known.keys(), deleted, job_id, now)
                accepted, rejected = accepted + taken, rejected + refused
                job_id = job_id if taken else ""
            except (NotReady, ShardLost) as fault:
                advice = f"{fault.detail} Run the same command again: what is there stays."
                left = [one.picture.filename for one in pictures] or [display_name(one.offered.name) for one in spooled]
                return IngestReceipt("", accepted, rejected + [RejectedFile(name, advice) for name in left])
        return IngestReceipt(job_id, accepted, rejected)

    def _taken_in(
        self, pictures: Sequence[ReceivedPicture], known: Set[str], deleted: Set[str], job_id: str, now: float
    ) -> tuple[list[AcceptedFile], list[RejectedFile]]:
        """Have the shards take pictures in. NotReady where one of them does not, for as long as it is waited for."""
        new = {one.picture.image_id: one.path for one in pictures if one.picture.image_id not in known}
        regions = self._finder.serialised_regions(new)
        attempts = 0

        def attempt() -> TakenIn:
            nonlocal attempts
            attempts += 1
            return self._store.take_in(pictures, now, now - self._limits.delete_grace_s, job_id, regions)

        taken = self._patiently(attempt).outcomes
        if attempts > 1:  # what an attempt that was not acknowledged took in is no duplicate
            expected = file_outcomes([one.picture.image_id for one in pictures], known, deleted)
            taken = [one if one.refused else other for one, other in zip(taken, expected, strict=True)]
        return sorted_out(pictures, taken)

    def _patiently(self, call: Callable[[], T]) -> T:
        """The result of a call of the shards; one that does not answer is asked again for a while."""
        until = self._clock() + SHARD_PATIENCE_S
        while True:
            try:
                return call()
            except (NotReady, ShardLost) as fault:
                if self._clock() >= until:
                    raise
                log.info("the shards are waited for: %s", fault)
                self._sleep(WAIT_S)


@contextmanager
def _noted(offered: OfferedFile, rejected: list[RejectedFile]) -> Iterator[None]:
    """A file that is not taken in the block is added to those rejected."""
    try:
        yield
    except NotTaken as fault:
        rejected.append(RejectedFile(display_name(offered.name), str(fault)))
