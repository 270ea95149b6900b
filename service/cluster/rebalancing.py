"""The move of pictures to a shard that was added: taken in there first, let go where they were once they are found.

Searches and changes go on meanwhile. A picture that is in both shards counts once. One that is edited after it was
copied is not let go before the copy was edited too; one that is deleted is deleted in both.
"""

import itertools
import logging
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from index.records import Image, NewPicture
from service.cluster.operations import Delete, Edit, Operation, Release, TakeIn, description_checksum
from service.cluster.shard_replica import Files

AT_A_TIME = 32
COPY_LINGER_S = 5.0  # longer than any search takes, and than a router needs to hear of a new shard

log = logging.getLogger(__name__)


class Shards(Protocol):
    """Asks and changes shards."""

    def ask(self, shard: int, method: str, *arguments: Any) -> Any:
        """The answer of one of the shard's replicas. ShardLost."""

    def job_is_done(self, shard: int, job_id: str) -> bool:
        """Whether every replica of a shard that is there finds the pictures of a job."""

    def write(self, shard: int, operation: Operation, files: Files | None = None) -> tuple[int, Any]:
        """The number of a change, and what it returned. NotReady."""


@dataclass(frozen=True)
class Moving:
    """A picture as it was copied, and the job of the copy."""

    source: int
    target: int
    image: Image
    job_id: str


class Rebalancing:
    """Moves what belongs to other shards now. `advance` is called again and again, by one thread."""

    def __init__(
        self,
        shards: Shards,
        num_before: int,
        linger_s: float = COPY_LINGER_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Pictures were placed among `num_before` shards, and belong among one more.

        A picture stays for `linger_s` seconds after its copy can be found: a search that asked the new shard before
        that still finds it in the old one.
        """
        self._linger_s, self._clock = linger_s, clock
        self._found_at: dict[str, float] = {}
        self._shards, self._num_shards = shards, num_before + 1
        self._sources = list(range(num_before))
        self._copied: list[Moving] = []
        self.moved = 0

    def advance(self) -> bool:
        """One step; True once every picture is where it belongs."""
        if self._copied:
            self._let_go()
            return False
        while self._sources:
            images = self._shards.ask(self._sources[0], "misplaced", self._sources[0], self._num_shards, AT_A_TIME)
            if images:
                self._copy(self._sources[0], images)
                return False
            log.info("shard %d holds nothing that belongs elsewhere", self._sources.pop(0))
        return True

    def _copy(self, source: int, images: Mapping[int, list[Image]]) -> None:
        """Take pictures into the shards that they belong to; `images` by shard."""
        for target, own in images.items():
            job_id = uuid.uuid4().hex
            for image in own:
                content = self._shards.ask(source, "original", image)
                if content is None:
                    log.error("the original of picture %s is missing: it stays in shard %d", image.image_id, source)
                    continue
                operation = TakeIn(
                    job_id=job_id, pictures=[as_new(image)], now=image.added_at, kept_since=image.added_at
                )
                self._shards.write(target, operation, {image.image_id: content})
                self._copied.append(Moving(source, target, image, job_id))
        if not self._copied:
            self._sources.remove(source)

    def _let_go(self) -> None:
        """Of copies that can be found, let the first picture go."""
        by_job: dict[tuple[int, str], list[Moving]] = defaultdict(list)
        for moving in self._copied:
            by_job[moving.target, moving.job_id].append(moving)
        now = self._clock()
        for target, job_id in by_job:
            if job_id not in self._found_at and self._shards.job_is_done(target, job_id):
                self._found_at[job_id] = now
        lingered = {job_id for job_id, found_at in self._found_at.items() if now - found_at >= self._linger_s}
        done = [copies for (_, job_id), copies in by_job.items() if job_id in lingered]
        for moving in itertools.chain(*done):
            if self._is_let_go(moving):
                self._copied.remove(moving)
                self.moved += 1

    def _is_let_go(self, moving: Moving) -> bool:
        """Whether the picture is gone from where it was; if it was edited meanwhile, the copy is edited instead."""
        image_id = moving.image.image_id
        current = self._shards.ask(moving.source, "image", image_id)
        if current is None:
            return True
        if current.state == "deleted":
            self._shards.write(moving.target, Delete(image_id=image_id, now=current.deleted_at))
            return True
        release = Release(image_id=image_id, description=description_checksum(moving.image))
        if self._shards.write(moving.source, release)[1]:
            return True
        self._copied.remove(moving)
        self._copied.append(Moving(moving.source, moving.target, current, moving.job_id))
        gone: dict[str, Any] = dict.fromkeys(moving.image.tags.keys() - current.tags.keys())
        changes = {"captions": list(current.captions), "tags": {**gone, **current.tags}}
        changes |= {"taken_at": current.taken_at, "filename": current.filename}
        self._shards.write(moving.target, Edit(image_id=image_id, changes=changes))
        return False


def as_new(image: Image) -> NewPicture:
    """A stored picture as it is offered to another shard."""
    return NewPicture(
        image_id=image.image_id,
        filename=image.filename,
        extension=image.extension,
        num_bytes=image.num_bytes,
        captions=list(image.captions),
        tags=dict(image.tags),
        taken_at=image.taken_at,
        added_at=image.added_at,
    )
