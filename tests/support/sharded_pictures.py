"""Pictures of several shards, each with one replica in this process."""

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

from index.records import NewPicture
from service.cluster.directing.move_gate import MoveGate
from service.cluster.directing.shard_writer import ShardWriter
from service.cluster.operations import Operation
from service.cluster.placement import Placement
from service.cluster.routing.fan_out import FanOut, all_answers
from service.cluster.routing.jobs import ClusterJobs
from service.cluster.routing.picture_store import ClusterPictureStore
from service.cluster.routing.pictures import ClusterPictures
from service.cluster.shards.lists import ShardLists
from service.ingest.picture_store import LocalPictureStore, ReceivedPicture
from service.storage.originals import image_id_of
from tests.support.directories import NOW, Directory

NUM = 30
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Shards:
    """Shards of one replica each."""

    def __init__(self, folder: Path, num_shards: int) -> None:
        self.folder = folder
        self.directories: list[Directory] = []
        self.writers: list[ShardWriter] = []
        self.fan_out = FanOut([], deadline_s=60.0)
        self.gate = MoveGate(self._held, Placement(num_shards), turn_s=1.0)
        self.before_write: Callable[[int, Operation], None] = lambda shard, operation: None
        for _ in range(num_shards):
            self.add()
        self.pictures = ClusterPictures(self.fan_out, self, lambda: self.placement, None)  # type: ignore[arg-type]
        self.jobs = ClusterJobs(self.fan_out, lambda: self.placement)
        self.store = ClusterPictureStore(self.fan_out, self, lambda: self.placement)

    @property
    def placement(self) -> Placement:
        return self.gate.placement

    @placement.setter
    def placement(self, placement: Placement) -> None:
        self.gate.place(placement)

    def _held(self, shard: int, image_ids: Sequence[str]) -> list[str]:
        return all_answers(self.fan_out, ShardLists.held, {shard: (image_ids,)})[shard]

    def add(self) -> None:
        number = len(self.directories)
        (self.folder / str(number)).mkdir(parents=True)
        own: list[Directory] = []
        own.append(Directory(self.folder / str(number), own))
        self.directories += own
        self.writers.append(ShardWriter(number, own, 1, 30.0))
        self.writers[-1].tend()
        self.fan_out.replicas = [*self.fan_out.replicas, own]

    def write(self, shard: int, operation: Operation, files: Mapping[str, bytes] | None = None) -> Any:
        """A change as a router has it made; `before_write` is what happens after the router looked."""
        self.before_write(shard, operation)
        with self.gate.passing(shard, operation, self.placement.num_shards):
            return self.writers[shard].write(operation, files)[1]

    def detect(self, only: str | None = None) -> None:
        for directory in self.directories:
            directory.detect(only)

    def close(self) -> None:
        for directory in self.directories:
            directory.close()


class MovingShards:
    """Shards as a move speaks to them."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

    def ask(self, shard: int, method: Callable[[ShardLists, *Ts], T], *arguments: *Ts) -> T:
        return all_answers(self._shards.fan_out, method, {shard: arguments})[shard]

    def sequence(self, shard: int) -> int:
        return self._shards.writers[shard].membership().position.sequence

    def job_is_done(self, shard: int, job_id: str) -> bool:
        (found,) = self._shards.fan_out.ask_every(ShardLists.job_is_found, {shard: (job_id,)}).values()
        return len(found) == len(self._shards.fan_out.replicas[shard]) and all(found)

    def write(self, shard: int, operation: Operation, files: Mapping[str, bytes] | None = None) -> tuple[int, Any]:
        return self._shards.writers[shard].write(operation, files)

    def step(self, image_id: str) -> AbstractContextManager[None]:
        return self._shards.gate.step(image_id)

    def begin_pass(self) -> None:
        self._shards.gate.begin_pass()

    def finish(self) -> bool:
        return self._shards.gate.finish(lambda: None)


def received(folder: Path, names: list[str]) -> list[ReceivedPicture]:
    """Uploaded pictures, with their names as descriptions."""
    made = []
    for name in names:
        path = folder / f"{name}.upload"
        path.write_bytes(name.encode())
        draw = random.Random(name)
        picture = NewPicture(
            image_id=image_id_of(sha256(name.encode()).hexdigest()),
            filename=f"{name}.png",
            extension="png",
            num_bytes=len(name),
            captions=[f"caption of {name}"] * draw.randint(0, 1),
            tags={"third": draw.randrange(3), "word": draw.choice(["red", "blue"])},
            taken_at=draw.choice([None, NOW + draw.randrange(10_000)]),
        )
        made.append(ReceivedPicture(path, picture))
    return made


def fill(shards: Shards, whole: Directory, folder: Path, count: int = NUM) -> list[str]:
    """Put the same pictures into both. Returns their ids."""
    for first in range(0, count, 10):
        names = [f"picture {number}" for number in range(first, min(first + 10, count))]
        now = NOW + first
        taken = shards.store.take_in(received(folder, names), now, 0.0)
        assert [one.duplicate for one in taken.outcomes] == [False] * len(names)
        LocalPictureStore(whole.catalog, whole.originals).take_in(received(folder, names), now, 0.0)
    shards.detect()
    whole.detect()
    return [image.image_id for image in whole.catalog.list_images(None, 1000)]
