"""Ingestion into a cluster: each picture goes to its home shard, in steps."""

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

STEP_BYTES = 16 * 2**20  # of pictures in one change, to bound the size of messages
STEP_PICTURES = 64
ARRIVAL_STEP_S = 1e-6  # between the pictures of a request, so that all shards agree on their order


class ClusterPictureStore:
    """Ingests pictures into their home shards."""

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
        """A job of all pictures but those refused, with the given id or a new one; `regions` are those found already.

        NotReady where a shard does not take its part; others may have taken theirs, and the request can be repeated.
        """
        operation = TakeIn(job_id=job_id or uuid.uuid4().hex, pictures=[], now=now, kept_since=kept_since)
        dated = [
            (
                number,
                ReceivedPicture(
                    file.path, replace(file.picture, added_at=file.picture.added_at or now + number * ARRIVAL_STEP_S)
                ),
            )
            for number, file in enumerate(pictures)
        ]
        outcomes: dict[int, FileOutcome] = {}
        until_settled(lambda: self._take_in_remaining(dated, operation, regions or {}, outcomes))
        return TakenIn(operation.job_id, [outcomes[number] for number in range(len(pictures))])

    def image(self, image_id: str) -> Image | None:
        """A picture in any state; None where it was never stored, or is erased. Raises ShardLost where its shard does
        not answer."""
        return picture_in_shards(self._fan_out, self._placement(), image_id)

    def _take_in_remaining(
        self,
        dated: Sequence[tuple[int, ReceivedPicture]],
        operation: TakeIn,
        regions: Mapping[str, bytes],
        outcomes: dict[int, FileOutcome],
    ) -> None:
        """Ingest the pictures without an outcome yet, each into its home shard, and add their outcomes. Raises NotReady
        where a shard was added meanwhile or takes no change, Moved where one of the pictures has moved meanwhile."""
        placement, remaining = self._placement(), [item for item in dated if item[0] not in outcomes]
        home = homes(self._fan_out, placement, [file.picture.image_id for _, file in remaining])
        by_shard: dict[int, list[tuple[int, ReceivedPicture]]] = defaultdict(list)
        for number, file in remaining:
            by_shard[home[file.picture.image_id]].append((number, file))
        for shard, placed in by_shard.items():
            for step in steps(placed):
                if self._placement().num_shards != placement.num_shards:
                    raise NotReady("A shard was added just now: send it again.", retry_after=SHARD_RETRY_S)
                write = partial(self._take_all_in, shard, operation, regions)
                step_outcomes = without_excess([file for _, file in step], write)
                outcomes |= zip((number for number, _ in step), step_outcomes, strict=True)

    def _take_all_in(
        self,
        shard: int,
        operation: TakeIn,
        regions: Mapping[str, bytes],
        pictures: Sequence[ReceivedPicture],
    ) -> Sequence[FileOutcome]:
        """Have a shard ingest pictures. Raises OversizedDescription, and whatever else the change raises."""
        files = {file.picture.image_id: file.path.read_bytes() for file in pictures}
        files |= {f"{name}{REGIONS}": regions[name] for name in files.keys() & regions.keys()}
        shard_operation = replace(operation, pictures=[file.picture for file in pictures])
        outcomes: Sequence[FileOutcome] = self._writers.write(shard, shard_operation, files)
        return outcomes


def steps(placed: Sequence[tuple[int, ReceivedPicture]]) -> list[list[tuple[int, ReceivedPicture]]]:
    """The pictures in groups that are small enough for one change; copies of one picture stay together."""
    groups: list[list[tuple[int, ReceivedPicture]]] = []
    size = 0
    for number, file in sorted(placed, key=lambda item: (item[1].picture.image_id, item[0])):
        is_copy = bool(groups) and groups[-1][-1][1].picture.image_id == file.picture.image_id
        full = bool(groups) and (size + file.picture.num_bytes > STEP_BYTES or len(groups[-1]) >= STEP_PICTURES)
        if not groups or (full and not is_copy):
            groups.append([])
            size = 0
        groups[-1].append((number, file))
        size += file.picture.num_bytes
    return groups
