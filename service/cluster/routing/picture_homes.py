"""The home shard of pictures, which has a picture or would take it in, also while pictures move between shards."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from index.records import Image
from service.cluster.messages import Moved
from service.cluster.operations import Operation, has_picture
from service.cluster.placement import Placement
from service.cluster.routing.fan_out import READ_DEADLINE_S, FanOut, all_answers
from service.cluster.shards.lists import ShardLists
from service.cluster.shards.replica import Files

MOVE_ATTEMPTS = 3  # of a change whose pictures are being moved
T = TypeVar("T")


class ShardWriters(Protocol):
    """Reaches the writer of each shard."""

    def write(self, shard: int, operation: Operation, files: Files | None = None) -> Any:
        """The result of a change. Raises NotReady where it was not acknowledged, and whatever the change raises."""


def known_in_shards(
    fan_out: FanOut, placement: Placement, method: Callable[[ShardLists, str], T | None], image_id: str
) -> list[T]:
    """The answers of a picture's shards, without None. Raises ShardLost where one does not answer."""
    places = placement.places(image_id)
    answers = all_answers(fan_out, method, dict.fromkeys(places, (image_id,)), deadline_s=READ_DEADLINE_S)
    return [answer for shard in places if (answer := answers[shard]) is not None]


def picture_in_shards(fan_out: FanOut, placement: Placement, image_id: str) -> Image | None:
    """A picture in any state, None where no shard has it, or its arrival was undone; while it is moved, the version in
    its old shard. Raises ShardLost where one of its shards does not answer."""
    versions = known_in_shards(fan_out, placement, ShardLists.image, image_id)
    return next((image for image in reversed(versions) if has_picture(image)), None)


def homes(fan_out: FanOut, placement: Placement, image_ids: Sequence[str]) -> dict[str, int]:
    """Id -> home shard, which for a picture being moved is the old shard until it has released it.

    Raises ShardLost where one of their shards does not answer.
    """
    calls = {shard: (moving,) for shard, moving in placement.moving(image_ids).items()}
    answers = all_answers(fan_out, ShardLists.held, calls, deadline_s=READ_DEADLINE_S)
    held = {image_id for held_ids in answers.values() for image_id in held_ids}
    return {image_id: placement.home(image_id, held) for image_id in image_ids}


class PictureHomes:
    """The shards of single pictures, by the placement of each moment."""

    def __init__(self, fan_out: FanOut, placement: Callable[[], Placement]) -> None:
        self._fan_out, self._placement = fan_out, placement

    def places(self, image_id: str) -> Sequence[int]:
        """The shards that may have a picture, the old one last, which decides whether it has moved."""
        return self._placement().places(image_id)

    def home(self, image_id: str) -> int:
        """The home shard of a picture. Raises ShardLost where it cannot be asked for."""
        return homes(self._fan_out, self._placement(), [image_id])[image_id]


def until_settled(change: Callable[[], T]) -> T:
    """The result of a change, which is repeated when its pictures have moved meanwhile. Raises Moved where they move
    every time."""
    for _ in range(MOVE_ATTEMPTS - 1):
        try:
            return change()
        except Moved:
            continue
    return change()
