"""Bulk ingestion of batches of picture files by a process that decodes them and finds their regions.

A picture that the shards know is not decoded again, so that an interrupted run can be continued. Regions are sent with
the pictures (`found_regions.py`), so that no replica has to find them.
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
    is_described_already,
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
from service.ingest.intake import AcceptedFile, IngestReceipt, RejectedFile, by_outcome
from service.ingest.picture_store import ReceivedPicture, TakenIn, file_outcomes
from service.storage.incoming import upload_folder
from service.worker.region_finder import RegionFinder

WAIT_S = 2.0
KNOWN_STATES = ("queued", "ready")  # of pictures that are not decoded again
SHARD_PATIENCE_S = 300.0  # with a silent shard; a killed process is restarted sooner
T = TypeVar("T")

log = logging.getLogger(__name__)


class BulkStore(Protocol):
    """The shards."""

    def images(self, image_ids: Sequence[str]) -> Mapping[str, Image]:
        """Id -> picture, of those that the shards have, in any state. Raises ShardLost where one does not answer."""

    def take_in(
        self,
        pictures: Sequence[ReceivedPicture],
        now: float,
        kept_since: float,
        job_id: str = "",
        regions: Mapping[str, bytes] | None = None,
    ) -> TakenIn:
        """A job of the pictures; `regions` are those already found, by id. Raises NotReady where it must be retried."""


class ShardsOfBulk(ClusterPictureStore):
    """The shards of a cluster."""

    def images(self, image_ids: Sequence[str]) -> dict[str, Image]:
        """Id -> picture, of those that the shards have, in any state; the old shard counts while a picture is moved.
        Raises ShardLost where a shard does not answer."""
        places = {image_id: self._placement().places(image_id) for image_id in image_ids}
        placed = defaultdict[int, list[str]](list)
        for image_id, shards in places.items():
            for shard in shards:
                placed[shard].append(image_id)
        calls = {shard: (image_ids,) for shard, image_ids in placed.items()}
        answers = all_answers(self._fan_out, ShardLists.known_images, calls, deadline_s=READ_DEADLINE_S)
        records = ((name, answers[shard].get(name)) for name, shards in places.items() for shard in shards)
        return {name: image for name, image in records if image is not None}


class BulkTaker:
    """Ingests files, batch by batch. For one thread."""

    def __init__(
        self,
        finder: RegionFinder,
        folder: Path,
        store: BulkStore,
        limits: BulkLimits,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Files are copied into the existing `folder`, which `finder` may read."""
        self._finder, self._folder = finder, folder
        self._store, self._limits = store, limits
        self._sleep, self._clock = sleep, clock

    def take(self, files: Sequence[OfferedFile], job_id: str) -> IngestReceipt:
        """Ingest files; those that are new, or have a new description, form a job of this id.

        On return each file is on disk in its shard, or rejected with the reason. Without a job, its id is empty.
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
                images = self._patiently(lambda: self._store.images([file.image_id for file in spooled]))
                described = {key: image for key, image in images.items() if not image.is_gone(kept_since)}
                known = {key: image for key, image in images.items() if image.state in KNOWN_STATES}
                descriptions = DescribedPictures(described.get)
                for file in (with_default_tags(copy, descriptions) for copy in spooled):
                    if is_described_already(file.offered, known.get(file.image_id)):
                        accepted.append(AcceptedFile(file.image_id, display_name(file.offered.name), duplicate=True))
                        continue
                    with _noted(file.offered, rejected):
                        picture = picture_in(file, self._finder, known.get(file.image_id), self._limits)
                        check_bounds(file, descriptions)  # which also counts this description
                        pictures.append(picture)
                if not pictures:
                    return IngestReceipt("", accepted, rejected)
                deleted = {key for key, image in described.items() if image.state == "deleted"}
                taken, refused = self._taken_in(pictures, known.keys(), deleted, job_id, now)
                accepted, rejected = accepted + taken, rejected + refused
                job_id = job_id if taken else ""
            except (NotReady, ShardLost) as fault:
                advice = f"{fault.detail} Run the same command again: what is there stays."
                names = [one.picture.filename for one in pictures]
                names = names or [display_name(file.offered.name) for file in spooled]
                return IngestReceipt("", accepted, rejected + [RejectedFile(name, advice) for name in names])
        return IngestReceipt(job_id, accepted, rejected)

    def _taken_in(
        self, pictures: Sequence[ReceivedPicture], known: Set[str], deleted: Set[str], job_id: str, now: float
    ) -> tuple[list[AcceptedFile], list[RejectedFile]]:
        """Have the shards ingest pictures. NotReady where one of them does not within the patience."""
        new = {one.picture.image_id: one.path for one in pictures if one.picture.image_id not in known}
        regions = self._finder.serialised_regions(new)
        attempts = 0

        def attempt() -> TakenIn:
            nonlocal attempts
            attempts += 1
            return self._store.take_in(pictures, now, now - self._limits.delete_grace_s, job_id, regions)

        outcomes = self._patiently(attempt).outcomes
        if attempts > 1:  # pictures of an unacknowledged attempt are no duplicates
            expected = file_outcomes([one.picture.image_id for one in pictures], known, deleted)
            outcomes = [real if real.refused else other for real, other in zip(outcomes, expected, strict=True)]
        return by_outcome(pictures, outcomes)

    def _patiently(self, call: Callable[[], T]) -> T:
        """The result of a call of the shards, which is repeated for a while where one does not answer."""
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
    """Adds the file to those rejected where the block raises NotTaken."""
    try:
        yield
    except NotTaken as fault:
        rejected.append(RejectedFile(display_name(offered.name), str(fault)))
