"""Files taken in in bulk are those that an upload would take in, with their regions, and each is looked at once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import PIL.Image
import pytest

from index.catalog.changes.description_bounds import MOST_CAPTIONS
from index.catalog.filters import EVERY
from index.records import Image, JobStatus
from models.extractors.base import Detections
from service.cluster.bulk.files import BulkLimits, NotTaken, OfferedFile, is_described_already, spooled_file
from service.cluster.bulk.ingestion import finished_jobs, innermost_cause
from service.cluster.bulk.taking import SHARD_PATIENCE_S, BulkTaker, ShardsOfBulk
from service.cluster.directing.shard_writer import ShardWriter
from service.cluster.messages import ShardLost
from service.cluster.operations import Delete, Edit, Operation
from service.cluster.placement import Placement, shard_of
from service.cluster.routing.fan_out import FanOut
from service.cluster.routing.jobs import ClusterJobs
from service.errors import UserError
from service.media.decode_pool import DecodePool
from service.settings import Settings
from service.storage.regions.records import pack
from service.worker.region_finder import RegionFinder
from tests.support.directories import NOW, Directory
from tests.support.fakes import FakeExtractor
from tests.support.worker_store import noise

NUM = 12


class Looks(FakeExtractor):
    """Counts the pictures that it looks at, and fails on narrow ones."""

    count = 0

    def extract(self, pictures: Sequence[PIL.Image.Image]) -> Detections:
        if any(picture.width == 1 for picture in pictures):
            raise ValueError("too narrow")
        self.count += len(pictures)
        return super().extract(pictures)


class TwoShards:
    """Two shards of two replicas each."""

    def __init__(self, folder: Path) -> None:
        self.replicas: list[list[Directory]] = []
        for shard in range(2):
            own: list[Directory] = []
            for number in range(2):
                (folder / f"{shard}-{number}").mkdir(parents=True)
                own.append(Directory(folder / f"{shard}-{number}", own))
            self.replicas.append(own)
        self.writers = [ShardWriter(shard, own, 2, 30.0) for shard, own in enumerate(self.replicas)]
        for writer in self.writers:
            writer.tend()
        self.fan_out = FanOut(self.replicas, deadline_s=10.0)
        self.store = ShardsOfBulk(self.fan_out, self, lambda: Placement(2))
        self.jobs = ClusterJobs(self.fan_out, lambda: Placement(2))

    def write(self, shard: int, operation: Operation, files: Mapping[str, bytes] | None = None) -> Any:
        return self.writers[shard].write(operation, files)[1]

    def all(self) -> list[Directory]:
        return [directory for own in self.replicas for directory in own]

    def filenames(self) -> list[str]:
        """Of the pictures of all shards, in the order of their arrival."""
        images = [
            image for own in self.replicas for image in own[0].catalog.identities.page(None, 99, EVERY, "arrival")
        ]
        return [image.filename for image in sorted(images, key=lambda one: one.added_at)]

    def close(self) -> None:
        for directory in self.all():
            directory.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bulk")


@pytest.fixture(scope="module")
def pool(folder: Path) -> Iterator[DecodePool]:
    with DecodePool.from_settings(Settings(), workers=1, readable=[folder]) as opened:
        yield opened


@pytest.fixture
def shards(tmp_path: Path) -> Iterator[TwoShards]:
    with closing(TwoShards(tmp_path / "shards")) as made:
        yield made


@pytest.fixture
def files(tmp_path: Path) -> list[OfferedFile]:
    made = []
    for number in range(NUM):
        path = tmp_path / f"{number}.png"
        noise(number).save(path)
        made.append(OfferedFile(number, f"a/{number}.png", str(path), [f"caption {number}"], {"album": "a"}))
    return made


class Clock:
    """Time that passes while somebody sleeps."""

    def __init__(self, woken: Callable[[], None] = lambda: None) -> None:
        self.now, self.woken = 0.0, woken

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.woken()


def taker(
    shards: TwoShards, pool: DecodePool, folder: Path, looks: FakeExtractor | None = None, clock: Clock | None = None
) -> BulkTaker:
    limits, clock = BulkLimits(max_file_bytes=2**20, delete_grace_s=1e9, began_at=NOW), clock or Clock()
    extractor = looks or FakeExtractor()
    return BulkTaker(RegionFinder(extractor, pool), folder, shards.store, limits, clock.sleep, lambda: clock.now)


def test_pictures_arrive_with_their_regions_in_the_order_of_files(
    shards: TwoShards, files: list[OfferedFile], pool: DecodePool, folder: Path
) -> None:
    one = taker(shards, pool, folder)
    late, early = one.take(files[6:], "late"), one.take(files[:6], "early")
    assert [file.duplicate for receipt in (late, early) for file in receipt.accepted] == [False] * NUM
    assert shards.filenames() == [file.name for file in files]
    extractor = FakeExtractor()
    for number, accepted in enumerate([*early.accepted, *late.accepted]):
        record = pack(extractor.extract([noise(number)]), [(1.0, 1.0)])
        for directory in shards.replicas[shard_of(accepted.image_id, 2)]:
            image = directory.catalog.image(accepted.image_id)
            assert image is not None
            assert (image.captions, dict(image.tags)) == ((f"caption {number}",), {"album": "a"})
            found = directory.found.get(accepted.image_id, extractor)
            assert found is not None
            for name, array in found.items():
                np.testing.assert_array_equal(array, record[name][0])
    assert list(folder.iterdir()) == []


def test_a_run_goes_on_where_one_was_ended(
    shards: TwoShards, files: list[OfferedFile], pool: DecodePool, folder: Path
) -> None:
    looks = Looks()
    one = taker(shards, pool, folder, looks)
    one.take(files[:8], "first")
    before = [writer.membership().position for writer in shards.writers]
    again = one.take(files[:8], "second")
    assert [file.duplicate for file in again.accepted] == [True] * 8
    assert again.job_id == ""
    assert [writer.membership().position for writer in shards.writers] == before
    both = one.take(files[6:], "third")
    assert [file.duplicate for file in both.accepted] == [True, True, False, False, False, False]
    assert looks.count == NUM
    said = OfferedFile(0, files[0].name, files[0].path, ["another"], {"album": "b"})
    assert one.take([said], "fourth").job_id == "fourth"
    assert looks.count == NUM
    (image,) = shards.store.images([again.accepted[0].image_id]).values()
    assert (image.captions, dict(image.tags)) == (("caption 0", "another"), {"album": "b"})
    dated = OfferedFile(0, files[0].name, files[0].path, taken_at=86_400.0)
    assert [one.take([dated], job_id).job_id for job_id in ("fifth", "sixth")] == ["fifth", ""]
    (image,) = shards.store.images([again.accepted[0].image_id]).values()
    assert image.taken_at == 86_400.0
    default = OfferedFile(0, files[0].name, files[0].path, default_tags={"album": "c"})
    assert one.take([default], "seventh").job_id == "", "an album that is there stays"
    image_id = again.accepted[0].image_id
    shards.write(shard_of(image_id, 2), Edit(image_id=image_id, changes={"tags": {"album": None}}))
    assert one.take([default], "eighth").job_id == "", "one that was taken away stays away"
    (image,) = shards.store.images([image_id]).values()
    assert dict(image.tags) == {}


def test_what_was_said_of_a_deleted_picture_counts_when_its_file_comes_again(
    shards: TwoShards, files: list[OfferedFile], pool: DecodePool, folder: Path
) -> None:
    one = taker(shards, pool, folder)
    full = replace(files[0], captions=[f"caption {number}" for number in range(MOST_CAPTIONS)], tags={"album": "mine"})
    (image_id,) = (accepted.image_id for accepted in one.take([full], "first").accepted)
    shards.write(shard_of(image_id, 2), Delete(image_id=image_id, now=NOW))
    (refused,) = one.take([replace(full, captions=["one more"])], "second").rejected
    assert "1001 captions" in refused.problem
    again = replace(full, captions=[], tags={}, default_tags={"album": "the folder", "place": "Oslo"})
    assert one.take([again], "third").job_id == "third"
    (image,) = shards.store.images([image_id]).values()
    assert (image.state, len(image.captions)) == ("queued", MOST_CAPTIONS)
    assert dict(image.tags) == {"album": "mine"}, "default tags are for what is new"


def test_a_file_that_is_refused_takes_no_default_tag_from_a_copy_of_it(
    shards: TwoShards, files: list[OfferedFile], pool: DecodePool, folder: Path
) -> None:
    captions = [f"caption {number}" for number in range(MOST_CAPTIONS + 1)]
    copy = replace(files[0], number=1, tags={}, default_tags={"album": "of the copy"})
    receipt = taker(shards, pool, folder).take([replace(files[0], captions=captions, tags={"album": "a"}), copy], "job")
    assert (len(receipt.accepted), len(receipt.rejected)) == (1, 1)
    (image,) = shards.store.images([receipt.accepted[0].image_id]).values()
    assert dict(image.tags) == {"album": "of the copy"}


def test_what_is_no_picture_is_said_and_stops_nothing(
    shards: TwoShards, files: list[OfferedFile], pool: DecodePool, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "text.png").write_text("no picture")
    (tmp_path / "long.png").write_bytes(bytes(2**20 + 1))
    PIL.Image.new("RGB", (1, 9)).save(tmp_path / "narrow.png")
    names = ["text.png", "missing.png", "long.png", "narrow.png"]
    others = [OfferedFile(20 + n, name, str(tmp_path / name)) for n, name in enumerate(names)]
    copy = OfferedFile(30, "copy.png", files[0].path)
    receipt = taker(shards, pool, folder, Looks()).take([files[0], *others, copy, files[1]], "job")
    assert [(one.filename, one.duplicate) for one in receipt.accepted] == [
        (files[0].name, False),
        ("narrow.png", False),  # whether its regions can be found is left to the replicas
        ("copy.png", True),
        (files[1].name, False),
    ]
    problems = {one.filename: one.problem for one in receipt.rejected}
    assert problems.keys() == {"text.png", "missing.png", "long.png"}
    assert "No such file" in problems["missing.png"]
    assert "limit of 1 MB" in problems["long.png"]
    assert not any("Make room" in problem for problem in problems.values())
    assert sum(len(list((one.folder / "found").iterdir())) for one in shards.all()) == 2 * 2


def test_a_node_without_room_blames_no_file(files: list[OfferedFile], tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / str(files[0].number)).symlink_to("/dev/full")
    with pytest.raises(NotTaken, match=r"cannot write its copy of .*: No space left on device\. Make room in .*full"):
        spooled_file(files[0], tmp_path / "full", 2**20)


def test_files_keep_to_the_bound_of_what_is_said_of_a_picture(
    shards: TwoShards, files: list[OfferedFile], pool: DecodePool, folder: Path
) -> None:
    one, path = taker(shards, pool, folder), files[0].path
    first = OfferedFile(0, "a.png", path, [f"caption {number}" for number in range(600)], {"album": "a"})
    more = OfferedFile(1, "b.png", path, [f"caption {number}" for number in range(600, 1001)])
    receipt = one.take([first, more], "together")
    assert [file.filename for file in receipt.accepted] == ["a.png"]
    assert "would have 1001 captions, and may have 1000" in receipt.rejected[0].problem
    again = one.take([more], "later")
    assert (again.job_id, again.accepted) == ("", [])
    assert "would have 1001 captions" in again.rejected[0].problem


def test_a_shard_that_is_away_is_waited_for(
    shards: TwoShards, files: list[OfferedFile], pool: DecodePool, folder: Path
) -> None:
    def come_back() -> None:
        if clock.now > 20:
            shards.replicas[1][0].down = False
            shards.writers[1].tend()

    clock = Clock(come_back)
    shards.replicas[1][0].down = True
    receipt = taker(shards, pool, folder, clock=clock).take(files, "job")
    assert 20 < clock.now < 30
    assert [file.duplicate for file in receipt.accepted] == [False] * NUM
    assert shards.replicas[1][0].state() == shards.replicas[1][1].state()


def test_files_that_a_shard_does_not_take_are_said(
    shards: TwoShards, files: list[OfferedFile], pool: DecodePool, folder: Path
) -> None:
    clock = Clock()
    shards.replicas[1][0].down = True
    receipt = taker(shards, pool, folder, clock=clock).take(files, "job")
    assert clock.now >= SHARD_PATIENCE_S
    assert (receipt.job_id, receipt.accepted) == ("", [])
    assert {one.filename for one in receipt.rejected} == {file.name for file in files}
    assert all("Run the same command again" in one.problem for one in receipt.rejected)
    shards.replicas[1][0].down = False
    shards.writers[1].tend()
    again = taker(shards, pool, folder).take(files, "job")
    assert len(again.accepted) == NUM
    assert sorted(shards.filenames()) == sorted(file.name for file in files)


def test_jobs_are_followed_until_their_pictures_can_be_found(
    shards: TwoShards, files: list[OfferedFile], pool: DecodePool, folder: Path
) -> None:
    def detect_all() -> None:
        for one in shards.all():
            one.detect()

    clock = Clock(detect_all)
    taker(shards, pool, folder).take(files, "job")
    done = list(finished_jobs(shards.jobs.job, ["unknown", "job"], clock.sleep, lambda: clock.now))
    assert [(job.job_id, job.state, job.total) for job in done] == [("job", "done", NUM)]

    def lost(job_id: str) -> JobStatus | None:
        raise ShardLost("Shard 1 does not answer; try again shortly.")

    with pytest.raises(UserError, match="are taken in, and stay"):
        list(finished_jobs(lost, ["job"], clock.sleep, lambda: clock.now))


TOLD = """ray::MapWorker(Map(NodeTaker)).submit() (pid=31568, ip=127.0.0.1)
  File "bulk_ingestion.py", line 60, in __call__
    raise RuntimeError("no detector here")
RuntimeError: no detector here

The above exception was the direct cause of the following exception:
ray.exceptions.UserCodeException: UDF failed to process a data block.
To change retry attempts, configure `DataContext` if you believe this to be transient."""


@pytest.mark.parametrize(
    ("told", "cause"),
    [(TOLD, "RuntimeError: no detector here"), ("a.b.Locked: by another", "a.b.Locked: by another"), ("\nx\ny\n", "y")],
)
def test_of_what_ray_tells_the_cause_is_said(told: str, cause: str) -> None:
    assert innermost_cause(told) == cause


@pytest.mark.parametrize(
    ("slot", "decided", "said"), [(None, (), True), (None, ("tags",), False), (3, ("tags",), True)]
)
def test_what_is_decided_of_a_picture_that_waits_is_something_new(
    slot: int | None, decided: tuple[str, ...], said: bool
) -> None:
    known = cast(Image, SimpleNamespace(slot=slot, captions=(), tags={}, taken_at=None))
    assert is_described_already(OfferedFile(0, "a.png", "a.png", decided=decided), known) is said
