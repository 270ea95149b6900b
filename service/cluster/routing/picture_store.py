"""Pictures that come into a cluster, each into the shard that it belongs to, in steps."""

import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from index.records import Image
from service.cluster.messages import SHARD_RETRY_S
from service.cluster.operations import TakeIn
from service.cluster.placement import Placement
from service.cluster.routing.fan_out import FanOut
from service.cluster.routing.picture_homes import ShardWriters, homes, picture_in_shards, until_settled
from service.cluster.shards.replica import REGIONS
from service.errors import NotReady
from service.ingest.picture_store import FileOutcome, ReceivedPicture, TakenIn, without_excess

STEP_BYTES = 16 * 2**20  # of pictures that one change takes in, so that no message is large
STEP_PICTURES = 64
ARRIVAL_STEP_S = 1e-6  # between the pictures of a request, so that their order is the same everywhere


class ClusterPictureStore:
    """Takes pictures into the shards that they belong to."""

    def __init__(self, fan_out: FanOut, writers: ShardWriters, placement: Callable[[], Placement]) -> None:
        self._fan_out, self._writers, self._placement = fan_out, writers, placement

    def take_in(
        self,
        pictures: Sequence[ReceivedPicture],
        now: float,
        kept_since: float,
        job_id: str = "",
        regions: Mapping[str, bytes] | None = None,
    ) -> TakenIn:
        """A job of the pictures but for those refused, of the id given or a new one; `regions` are those found already,
        by id.

        NotReady where a shard does not take its part: the others may have theirs, and the same request may come again.
        """
        operation = TakeIn(job_id=job_id or uuid.uuid4().hex, pictures=[], now=now, kept_since=kept_since)
        dated = [
            (
                number,
                ReceivedPicture(
                    one.path, replace(one.picture, added_at=one.picture.added_at or now + number * ARRIVAL_STEP_S)
                ),
            )
            for number, one in enumerate(pictures)
        ]
        taken: dict[int, FileOutcome] = {}
        until_settled(lambda: self._take_in_left(dated, operation, regions or {}, taken))
        return TakenIn(operation.job_id, [taken[number] for number in range(len(pictures))])

    def image(self, image_id: str) -> Image | None:
        """A picture in whatever state; None when never seen, or erased. Raises ShardLost where its shard does not
        answer."""
        return picture_in_shards(self._fan_out, self._placement(), image_id)

    def _take_in_left(
        self,
        dated: Sequence[tuple[int, ReceivedPicture]],
        operation: TakeIn,
        regions: Mapping[str, bytes],
        taken: dict[int, FileOutcome],
    ) -> None:
        """Take in those pictures that are not among `taken` yet, each where it is. Raises NotReady where a shard was
        added meanwhile or takes no change, Moved where one of the pictures is elsewhere by then."""
        placement, left = self._placement(), [(number, one) for number, one in dated if number not in taken]
        home = homes(self._fan_out, placement, [one.picture.image_id for _, one in left])
        by_shard: dict[int, list[tuple[int, ReceivedPicture]]] = defaultdict(list)
        for number, one in left:
            by_shard[home[one.picture.image_id]].append((number, one))
        for shard, placed in by_shard.items():
            for step in steps(placed):
                if self._placement().num_shards != placement.num_shards:
                    raise NotReady("A shard was added just now: send it again.", retry_after=SHARD_RETRY_S)
                write = partial(self._take_all_in, shard, operation, regions)
                outcomes = without_excess([one for _, one in step], write)
                taken |= zip((number for number, _ in step), outcomes, strict=True)

    def _take_all_in(
        self,
        shard: int,
        operation: TakeIn,
        regions: Mapping[str, bytes],
        pictures: Sequence[ReceivedPicture],
    ) -> Sequence[FileOutcome]:
        """Have a shard take pictures in. Raises TooMuchSaid, and whatever else the change raises."""
        files = {one.picture.image_id: one.path.read_bytes() for one in pictures}
        files |= {f"{name}{REGIONS}": regions[name] for name in files.keys() & regions.keys()}
        own = replace(operation, pictures=[one.picture for one in pictures])
        outcomes: Sequence[FileOutcome] = self._writers.write(shard, own, files)
        return outcomes


def steps(placed: Sequence[tuple[int, ReceivedPicture]]) -> list[list[tuple[int, ReceivedPicture]]]:
    """The pictures in groups that are small enough for one change; copies of one picture stay together."""
    groups: list[list[tuple[int, ReceivedPicture]]] = []
    size = 0
    for number, one in sorted(placed, key=lambda item: (item[1].picture.image_id, item[0])):
        is_copy = bool(groups) and groups[-1][-1][1].picture.image_id == one.picture.image_id
        full = bool(groups) and (size + one.picture.num_bytes > STEP_BYTES or len(groups[-1]) >= STEP_PICTURES)
        if not groups or (full and not is_copy):
            groups.append([])
            size = 0
        groups[-1].append((number, one))
        size += one.picture.num_bytes
    return groups
