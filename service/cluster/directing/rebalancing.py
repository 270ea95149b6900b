"""The move of pictures to an added shard: each is copied there, and released by its old shard once it can be found.

Searches and changes go on meanwhile. A picture in both shards counts once, in the version of the old shard, where
changes go (`move_gate.py`). One that changes after it was copied is copied again; one that is deleted is deleted in
both.
"""

import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar, TypeVarTuple

from index.catalog.changes.decided_fields import WHOLE_DESCRIPTION
from index.catalog.list_orders import PageKey
from index.records import Image, NewPicture
from service.cluster.operations import Delete, Edit, Operation, Release, TakeIn, has_picture
from service.cluster.shards.lists import ShardLists
from service.cluster.shards.replica import REGIONS, Files

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

AT_A_TIME = 32
MOST_COPIED = 1000  # pictures that are in both shards
COPY_LINGER_S = 5.0  # longer than any search, and than routers need to learn of a new shard
STUCK_PAUSE_S = 60.0  # before pictures that could not be moved are tried again
PASSES = 2  # the second for pictures that were on their way to their former home during the first

log = logging.getLogger(__name__)


class Shards(Protocol):
    """Reads and changes shards."""

    def ask(self, shard: int, method: Callable[[ShardLists, *Ts], T], *arguments: *Ts) -> T:
        """The answer of one of the shard's replicas. Raises ShardLost where none answers."""

    def sequence(self, shard: int) -> int:
        """The number of a shard's last change."""

    def job_is_done(self, shard: int, job_id: str) -> bool:
        """Whether every member of a shard finds the pictures of a job."""

    def write(self, shard: int, operation: Operation, files: Files | None = None) -> tuple[int, Any]:
        """The number and the result of a change. Raises NotReady where the shard takes none."""

    def step(self, image_id: str) -> AbstractContextManager[None]:
        """A block in which no one else changes the picture. Raises NotReady where another change takes too long."""

    def begin_pass(self) -> None:
        """Start to note whether a picture comes back to its old shard."""

    def finish(self) -> bool:
        """End the move; False where a picture may have come back since the pass began."""


@dataclass(frozen=True)
class Moving:
    """A copied picture, the job of the copy, and the number of the last change before it."""

    source: int
    target: int
    image_id: str
    job_id: str
    since: int


class Rebalancing:
    """Moves pictures to the shards that they belong to now. `advance` is called repeatedly, by one thread."""

    def __init__(
        self,
        shards: Shards,
        num_before: int,
        linger_s: float = COPY_LINGER_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Pictures were placed among `num_before` shards, and are now placed among one more.

        A picture stays for `linger_s` seconds after its copy can be found, for searches that asked the new shard too
        early.
        """
        self._linger_s, self._clock = linger_s, clock
        self._found_at: dict[str, float] = {}
        self._shards, self._num_shards = shards, num_before + 1
        self._sources = list(range(num_before))
        self._after: PageKey | None = None  # the position reached in the first of the sources
        self._passes_left = PASSES
        self._rescan_from = float("-inf")
        self._copied: list[Moving] = []
        self._stuck: set[str] = set()
        self.moved = 0
        self.num_stuck = 0  # in the last complete pass

    def advance(self) -> bool:
        """Do one step. Returns True once every picture is where it belongs.

        A picture whose original is missing, or cannot be read by its new shard, keeps the move from ending: it is tried
        again until it is sent again, or deleted.
        """
        self._let_go()
        while self._sources and self._clock() >= self._rescan_from and len(self._copied) < MOST_COPIED:
            source = self._sources[0]
            arguments = source, self._num_shards, AT_A_TIME, self._after
            images, after = self._shards.ask(source, ShardLists.misplaced, *arguments)
            self._copy(source, images)
            self._after = after  # only now, so that pictures that a fault kept from being copied are listed again
            if after is None:
                self._sources.pop(0)
            if images:
                return False
        return not self._sources and not self._copied and self._end_pass()

    def _end_pass(self) -> bool:
        """End the move, or begin another pass. Returns True where the move has ended."""
        self.num_stuck = len(self._stuck)
        self._passes_left = 1 if self._stuck else self._passes_left - 1
        if self._passes_left == 0:
            if self._shards.finish():
                return True
            self._passes_left = 1
        self._shards.begin_pass()
        self._sources = list(range(self._num_shards - 1))
        self._rescan_from = self._clock() + (STUCK_PAUSE_S if self._stuck else self._linger_s)
        if self._stuck:
            log.warning(
                "%d pictures stay where they are, such as %s: their originals are missing, or cannot be read by the"
                " shard that they belong to, which is tried again; send them again, or delete them",
                len(self._stuck),
                min(self._stuck),
            )
        self._stuck.clear()
        return False

    def _copy(self, source: int, images: Mapping[int, list[Image]]) -> None:
        """Copy pictures to the shards that they belong to; `images` are by shard. A picture whose group a fault
        interrupted is not copied twice."""
        copied_before = {moving.image_id for moving in self._copied}
        for target, group in images.items():
            job_id = uuid.uuid4().hex
            for image_id in [image.image_id for image in group if image.image_id not in copied_before]:
                with self._shards.step(image_id):
                    copied = self._copied_one(source, target, image_id, job_id)
                if copied is not None:
                    self._copied.append(copied)

    def _copied_one(self, source: int, target: int, image_id: str, job_id: str) -> Moving | None:
        """The move of a picture, copied as it is now; None where it no longer exists, or is stuck."""
        since = self._shards.sequence(source)  # read first, so that the release notices later changes
        image = self._shards.ask(source, ShardLists.image, image_id)
        if image is None or image.state == "deleted":
            return None
        copy = self._shards.ask(target, ShardLists.image, image_id)
        moving = Moving(source, target, image_id, job_id, since)
        content = self._shards.ask(source, ShardLists.original, image)
        if content is None:
            return self._without_original(moving, image, copy)
        picture = as_new(image, self._decided_fields(source, image))
        added_at = image.added_at
        operation = TakeIn(job_id=job_id, pictures=[picture], now=added_at, kept_since=added_at, bounded=False)
        files = {image_id: content}
        if (serialised := self._shards.ask(source, ShardLists.serialised_regions, image_id)) is not None:
            files[image_id + REGIONS] = serialised
        self._shards.write(target, operation, files)
        if copy is not None:  # an earlier copy, whose picture may have been changed since
            self._describe(target, image, copy)
        return moving

    def _decided_fields(self, source: int, image: Image) -> Sequence[str]:
        """The fields that ignore the file's own metadata: all of them where the old shard has read it already."""
        if image.slot is not None:
            return WHOLE_DESCRIPTION
        decided: Sequence[str] = self._shards.ask(source, ShardLists.decided_fields, image.image_id)
        return decided

    def _without_original(self, moving: Moving, image: Image, copy: Image | None) -> Moving | None:
        """The move of a picture without original: its new shard must have its bytes already, else it is stuck."""
        if copy is None or copy.state != "ready":
            self._stuck.add(moving.image_id)
            return None
        self._describe(moving.target, image, copy)
        moving = replace(moving, job_id=uuid.uuid4().hex)
        self._found_at[moving.job_id] = self._clock()
        return moving

    def _let_go(self) -> None:
        """Release the pictures whose copies have lingered long enough."""
        now = self._clock()
        for target, job_id in {(moving.target, moving.job_id) for moving in self._copied}:
            if job_id not in self._found_at and self._shards.job_is_done(target, job_id):
                self._found_at[job_id] = now
        lingered = {job_id for job_id, found_at in self._found_at.items() if now - found_at >= self._linger_s}
        for moving in [moving for moving in self._copied if moving.job_id in lingered]:
            with self._shards.step(moving.image_id):
                again = self._released(moving)
            self._copied.remove(moving)  # only now, since a fault may keep it from being released
            if again is not None:
                self._copied.append(again)
            elif moving.image_id not in self._stuck:
                self.moved += 1
        jobs = {moving.job_id for moving in self._copied}
        self._found_at = {job_id: found_at for job_id, found_at in self._found_at.items() if job_id in jobs}

    def _released(self, moving: Moving) -> Moving | None:
        """None once the picture is released, or is stuck; the move of a new copy where it was changed meanwhile."""
        current = self._shards.ask(moving.source, ShardLists.image, moving.image_id)
        if not has_picture(current):
            return None
        if current.state == "ready" and not self._is_ready(moving.target, moving.image_id):
            self._stuck.add(moving.image_id)
            return None
        if current.deleted_at is not None:
            self._shards.write(moving.target, Delete(image_id=moving.image_id, now=current.deleted_at))
            return None
        release = Release(image_id=moving.image_id, since=moving.since, num_shards=self._num_shards)
        if self._shards.write(moving.source, release)[1]:
            return None
        return self._copied_one(moving.source, moving.target, moving.image_id, uuid.uuid4().hex)

    def _is_ready(self, shard: int, image_id: str) -> bool:
        image = self._shards.ask(shard, ShardLists.image, image_id)
        return image is not None and image.state == "ready"

    def _describe(self, target: int, image: Image, copy: Image) -> None:
        """Give a picture's copy the picture's description; `copy` is its state before."""
        removed: dict[str, Any] = dict.fromkeys(copy.tags.keys() - image.tags.keys())
        changes: dict[str, Any] = {"captions": list(image.captions), "tags": {**removed, **image.tags}}
        changes |= {"taken_at": image.taken_at, "filename": image.filename}
        self._shards.write(target, Edit(image_id=image.image_id, changes=changes, bounded=False))


def as_new(image: Image, decided_fields: Sequence[str] = WHOLE_DESCRIPTION) -> NewPicture:
    """A stored picture as it is sent to another shard; `decided_fields` ignore the file's own metadata there."""
    return NewPicture(
        image_id=image.image_id,
        filename=image.filename,
        extension=image.extension,
        num_bytes=image.num_bytes,
        captions=list(image.captions),
        tags=dict(image.tags),
        taken_at=image.taken_at,
        added_at=image.added_at,
        decided_fields=tuple(decided_fields),
    )
