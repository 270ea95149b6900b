"""The move of pictures to a shard that was added: taken in there first, let go where they were once they are found.

Searches and changes go on meanwhile. A picture that is in both shards counts once, as it is in the one that it moves
from: changes go there (`move_gate.py`). One that was changed after it was copied is copied again; one that is deleted
is deleted in both.
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
COPY_LINGER_S = 5.0  # longer than any search takes, and than a router needs to hear of a new shard
STUCK_PAUSE_S = 60.0  # before it is looked again for what could not be moved
PASSES = 2  # once more after a while: a picture may have been on its way to where it belonged before

log = logging.getLogger(__name__)


class Shards(Protocol):
    """Asks and changes shards."""

    def ask(self, shard: int, method: Callable[[ShardLists, *Ts], T], *arguments: *Ts) -> T:
        """The answer of one of the shard's replicas. Raises ShardLost where none answers."""

    def sequence(self, shard: int) -> int:
        """The number of a shard's last change."""

    def job_is_done(self, shard: int, job_id: str) -> bool:
        """Whether every replica of a shard that has every change finds the pictures of a job."""

    def write(self, shard: int, operation: Operation, files: Files | None = None) -> tuple[int, Any]:
        """The number of a change, and what it returned. Raises NotReady where the shard takes none."""

    def step(self, image_id: str) -> AbstractContextManager[None]:
        """A block within which nobody else changes the picture. Raises NotReady while another change takes long."""

    def begin_pass(self) -> None:
        """Note from now on whether a picture comes back where it is moved from."""

    def finish(self) -> bool:
        """End the move; False where a picture may have come back since the pass began."""


@dataclass(frozen=True)
class Moving:
    """A picture that was copied, the job of the copy, and the number of the last change before it."""

    source: int
    target: int
    image_id: str
    job_id: str
    since: int


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
        self._after: PageKey | None = None  # in the first of these, whose pictures up to there were looked at
        self._passes_left = PASSES
        self._rescan_from = float("-inf")
        self._copied: list[Moving] = []
        self._stuck: set[str] = set()
        self.moved = 0
        self.num_stuck = 0  # when all were last looked at

    def advance(self) -> bool:
        """One step; True once every picture is where it belongs.

        One whose original is missing, or that could be read where it was and cannot where it belongs, keeps it from
        ending: it is looked at until it is sent again, or deleted.
        """
        self._let_go()
        while self._sources and self._clock() >= self._rescan_from and len(self._copied) < MOST_COPIED:
            source = self._sources[0]
            asked = source, self._num_shards, AT_A_TIME, self._after
            images, after = self._shards.ask(source, ShardLists.misplaced, *asked)
            self._copy(source, images)
            self._after = after  # not before: what a fault kept from being copied is asked for again
            if after is None:
                self._sources.pop(0)
            if images:
                return False
        return not self._sources and not self._copied and self._end_pass()

    def _end_pass(self) -> bool:
        """End the move, or begin anew: True where it is ended."""
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
        """Take pictures into the shards that they belong to; `images` by shard. Those that a fault kept others of their
        group from following are not copied twice."""
        on_their_way = {moving.image_id for moving in self._copied}
        for target, own in images.items():
            job_id = uuid.uuid4().hex
            for image_id in [image.image_id for image in own if image.image_id not in on_their_way]:
                with self._shards.step(image_id):
                    copied = self._copied_one(source, target, image_id, job_id)
                if copied is not None:
                    self._copied.append(copied)

    def _copied_one(self, source: int, target: int, image_id: str, job_id: str) -> Moving | None:
        """The move of a picture that was copied as it is now; None where there is none any more, or it is stuck."""
        since = self._shards.sequence(source)  # before the look: what changes after it is seen by the release
        image = self._shards.ask(source, ShardLists.image, image_id)
        if image is None or image.state == "deleted":
            return None
        copy = self._shards.ask(target, ShardLists.image, image_id)
        moving = Moving(source, target, image_id, job_id, since)
        content = self._shards.ask(source, ShardLists.original, image)
        if content is None:
            return self._without_original(moving, image, copy)
        picture = as_new(image, self._decided_fields(source, image))
        came = image.added_at
        operation = TakeIn(job_id=job_id, pictures=[picture], now=came, kept_since=came, bounded=False)
        files = {image_id: content}
        if (serialised := self._shards.ask(source, ShardLists.serialised_regions, image_id)) is not None:
            files[image_id + REGIONS] = serialised
        self._shards.write(target, operation, files)
        if copy is not None:  # of before, and perhaps changed or deleted since
            self._describe(target, image, copy)
        return moving

    def _decided_fields(self, source: int, image: Image) -> Sequence[str]:
        """The fields in which a picture's file has no say: all of them where its shard heard the file already."""
        if image.slot is not None:
            return WHOLE_DESCRIPTION
        decided: Sequence[str] = self._shards.ask(source, ShardLists.decided_fields, image.image_id)
        return decided

    def _without_original(self, moving: Moving, image: Image, copy: Image | None) -> Moving | None:
        """Let a picture go if it is where it belongs with its bytes; otherwise it is stuck."""
        if copy is None or copy.state != "ready":
            self._stuck.add(moving.image_id)
            return None
        self._describe(moving.target, image, copy)
        moving = replace(moving, job_id=uuid.uuid4().hex)
        self._found_at[moving.job_id] = self._clock()
        return moving

    def _let_go(self) -> None:
        """Of copies that have lingered, let the first picture go."""
        now = self._clock()
        for target, job_id in {(moving.target, moving.job_id) for moving in self._copied}:
            if job_id not in self._found_at and self._shards.job_is_done(target, job_id):
                self._found_at[job_id] = now
        lingered = {job_id for job_id, found_at in self._found_at.items() if now - found_at >= self._linger_s}
        for moving in [one for one in self._copied if one.job_id in lingered]:
            with self._shards.step(moving.image_id):
                again = self._released(moving)
            self._copied.remove(moving)  # not before: a fault may have kept it from being let go
            if again is not None:
                self._copied.append(again)
            elif moving.image_id not in self._stuck:
                self.moved += 1
        jobs = {moving.job_id for moving in self._copied}
        self._found_at = {job_id: found_at for job_id, found_at in self._found_at.items() if job_id in jobs}

    def _released(self, moving: Moving) -> Moving | None:
        """None once the picture is gone from where it was, or is stuck; if it was changed meanwhile, the move of a new
        copy."""
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
        """Give the copy of a picture the description that the first one has; `copy` is what it was before."""
        gone: dict[str, Any] = dict.fromkeys(copy.tags.keys() - image.tags.keys())
        changes: dict[str, Any] = {"captions": list(image.captions), "tags": {**gone, **image.tags}}
        changes |= {"taken_at": image.taken_at, "filename": image.filename}
        self._shards.write(target, Edit(image_id=image.image_id, changes=changes, bounded=False))


def as_new(image: Image, decided_fields: Sequence[str] = WHOLE_DESCRIPTION) -> NewPicture:
    """A stored picture as it is offered to another shard; its file has no say in these fields there."""
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
