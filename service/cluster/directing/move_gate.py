"""The gate that changes pass while pictures move to an added shard.

Until the old shard releases a picture, its version of the picture counts, and that in the new shard is only a copy. So
changes go to the old shard as long as it has the picture, and to the new one afterwards. Which one has it is looked up
while neither the move nor another change works on the picture, and so holds until the change is made.
"""

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from service.cluster.messages import SHARD_RETRY_S, Moved
from service.cluster.operations import Delete, Operation, Restore, TakeIn
from service.cluster.placement import Placement
from service.cluster.shards.undo import touched_ids
from service.errors import NotReady

PICTURE_TURN_S = 10.0  # for which a change waits for another one of the same picture


class MoveGate:
    """Lets changes through, one at a time for each picture. Thread-safe."""

    def __init__(
        self,
        held: Callable[[int, Sequence[str]], Collection[str]],
        placement: Placement,
        turn_s: float = PICTURE_TURN_S,
    ) -> None:
        """`held` returns which of some pictures a shard has, deleted or not, and has not released."""
        self._held, self._placement, self._turn_s = held, placement, turn_s
        self._changed = threading.Condition()
        self._busy: dict[str, int | None] = {}  # pictures being changed, with the shard; None for a step of the move
        self._came_back = False

    @property
    def placement(self) -> Placement:
        """The current placement of pictures."""
        return self._placement

    def place(self, placement: Placement) -> None:
        """Set the placement for changes from now on."""
        with self._changed:
            self._placement = placement

    @contextmanager
    def passing(self, shard: int, operation: Operation, num_shards: int) -> Iterator[None]:
        """A block in which a shard, chosen among `num_shards`, may make a change.

        Raises NotReady where there are more shards now, Moved where another shard has one of the pictures.
        """
        image_ids = touched_ids(operation)
        with self._turn(image_ids, shard, num_shards):
            self._check(shard, operation, image_ids)
            try:
                yield
            finally:
                if isinstance(operation, TakeIn | Restore):
                    with self._changed:
                        self._came_back |= any(self._is_moved_from(shard, image_id) for image_id in image_ids)

    @contextmanager
    def step(self, image_id: str) -> Iterator[None]:
        """A block for a step of the move, in which no one else changes the picture. Raises NotReady where another
        change takes too long."""
        with self._turn([image_id], None, None):
            yield

    def begin_pass(self) -> None:
        """Note from now on whether a picture comes back where it is moved from."""
        with self._changed:
            self._came_back = False

    def finish(self, keep: Callable[[], None]) -> bool:
        """End the move, which `keep` records. Returns False where a picture may have come back since the pass began."""
        with self._changed:
            busy = any(
                shard is not None and self._is_moved_from(shard, image_id) for image_id, shard in self._busy.items()
            )
            if busy or self._came_back:
                return False
            keep()
            self._placement = Placement(self._placement.num_shards)
            return True

    @contextmanager
    def _turn(self, image_ids: Sequence[str], shard: int | None, num_shards: int | None) -> Iterator[None]:
        wanted = set(image_ids)
        with self._changed:
            if not self._changed.wait_for(lambda: wanted.isdisjoint(self._busy), self._turn_s):
                raise NotReady("Another change of the picture is under way: send it again.", retry_after=SHARD_RETRY_S)
            if num_shards not in (None, self._placement.num_shards):
                raise NotReady("A shard was added just now: send it again.", retry_after=SHARD_RETRY_S)
            self._busy |= dict.fromkeys(wanted, shard)
        try:
            yield
        finally:
            with self._changed:
                for image_id in wanted:
                    del self._busy[image_id]
                self._changed.notify_all()

    def _check(self, shard: int, operation: Operation, image_ids: Sequence[str]) -> None:
        """Moved unless the shard is the home of these pictures; deletions are made in all their shards."""
        if isinstance(operation, Delete):
            return
        placement = self._placement
        moving = placement.moving(image_ids)
        held = {image_id for source, ids in moving.items() for image_id in self._held(source, ids)}
        if any(placement.home(image_id, held) != shard for image_id in image_ids):
            raise Moved("The picture moves to another shard just now: send it again.", retry_after=SHARD_RETRY_S)

    def _is_moved_from(self, shard: int, image_id: str) -> bool:
        return shard in self._placement.places(image_id)[1:]
