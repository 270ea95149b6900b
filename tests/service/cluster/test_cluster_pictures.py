"""Lists and changes over shards are those of one catalog with all pictures; a shard that is added takes its share."""

import random
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from index.failures import failure_key
from index.filters import EVERY, Filter
from index.records import Failure, ImageOrder, ListPlace, NewPicture, PictureChange
from service.cluster.cluster_pictures import ClusterJobs, ClusterPictures, ClusterPictureStore, steps
from service.cluster.fan_out import FanOut, all_answers
from service.cluster.messages import ShardLost
from service.cluster.operations import Operation
from service.cluster.placement import Placement, shard_of
from service.cluster.rebalancing import Rebalancing
from service.cluster.shard_writer import ShardWriter
from service.errors import NotReady
from service.ingest.picture_store import LocalPictureStore, ReceivedPicture
from service.storage.originals import image_id_of
from tests.support.directories import NOW, Directory

NUM = 30
ORDERS: list[ImageOrder] = ["arrival", "latest", "date"]


class Shards:
    """Shards of one replica each."""

    def __init__(self, folder: Path, num_shards: int) -> None:
        self.folder = folder
        self.directories: list[Directory] = []
        self.writers: list[ShardWriter] = []
        self.fan_out = FanOut([], deadline_s=5.0)
        self.placement = Placement(num_shards)
        for _ in range(num_shards):
            self.add()
        self.pictures = ClusterPictures(self.fan_out, self, lambda: self.placement, None)  # type: ignore[arg-type]
        self.jobs = ClusterJobs(self.fan_out, lambda: self.placement)
        self.store = ClusterPictureStore(self, lambda: self.placement)

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
        return self.writers[shard].write(operation, files)[1]

    def detect(self) -> None:
        for directory in self.directories:
            directory.detect()

    def close(self) -> None:
        for directory in self.directories:
            directory.close()


class MovingShards:
    """What a move asks of shards."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

    def ask(self, shard: int, method: str, *arguments: Any) -> Any:
        return all_answers(self._shards.fan_out, method, {shard: arguments})[shard]

    def sequence(self, shard: int) -> int:
        return self._shards.writers[shard].membership().position.sequence

    def job_is_done(self, shard: int, job_id: str) -> bool:
        (found,) = self._shards.fan_out.ask_every("job_is_found", {shard: (job_id,)}).values()
        return len(found) == len(self._shards.fan_out.replicas[shard]) and all(found)

    def write(self, shard: int, operation: Operation, files: Mapping[str, bytes] | None = None) -> tuple[int, Any]:
        return self._shards.writers[shard].write(operation, files)


def received(folder: Path, names: list[str]) -> list[ReceivedPicture]:
    """Pictures as an upload leaves them, described by their names."""
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


@pytest.fixture
def shards(tmp_path: Path) -> Iterator[Shards]:
    with closing(Shards(tmp_path / "shards", 3)) as made:
        yield made


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[Directory]:
    (tmp_path / "whole").mkdir()
    with ExitStack() as stack:
        yield stack.enter_context(closing(Directory(tmp_path / "whole", [])))


def fill(shards: Shards, whole: Directory, folder: Path, count: int = NUM) -> list[str]:
    """The same pictures in both; their ids."""
    for first in range(0, count, 10):
        names = [f"picture {number}" for number in range(first, min(first + 10, count))]
        now = NOW + first
        taken = shards.store.take_in(received(folder, names), now, 0.0)
        assert taken.duplicates == [False] * len(names)
        LocalPictureStore(whole.catalog, whole.originals).take_in(received(folder, names), now, 0.0)
    shards.detect()
    whole.detect()
    return [image.image_id for image in whole.catalog.list_images(None, 1000)]


@pytest.mark.parametrize("order", ORDERS)
def test_pages_are_those_of_one_catalog(shards: Shards, whole: Directory, tmp_path: Path, order: ImageOrder) -> None:
    fill(shards, whole, tmp_path)
    for condition in (EVERY, Filter(tags={"third": 1}), Filter(tags={"word": ["red"]}, taken_at={"gte": NOW})):
        expected = [one.image_id for one in whole.catalog.list_images(None, 1000, condition, order)]
        found: list[str] = []
        place: ListPlace | None = None
        while page := shards.pictures.page(place, 7, condition, order):
            found += [image.image_id for image in page]
            place = ListPlace(found[-1])
            if order == "date":  # edited between two pages, it changes no other's place
                place = ListPlace(found[-1], page[-1].taken_at)
        if order == "arrival":
            assert found == expected
        else:  # of one moment, or without a date, pictures of one request may come in another order
            assert sorted(found) == sorted(expected)
            assert [whole.catalog.image(one).taken_at for one in found] == [  # type: ignore[union-attr]
                whole.catalog.image(one).taken_at  # type: ignore[union-attr]
                for one in expected
            ] or order == "latest"
        known = shards.pictures.page(None, 9, EVERY, order)[-1]
        gone = ListPlace("f" * 32, known.taken_at, known.added_at)  # behind the one known, as it was erased since
        behind = shards.pictures.page(ListPlace(known.image_id, known.taken_at), 1000, EVERY, order)
        assert [one for one in behind if one.added_at != known.added_at] == [
            one for one in shards.pictures.page(gone, 1000, EVERY, order) if one.added_at != known.added_at
        ]
    with pytest.raises(ValueError, match="no picture"):
        shards.pictures.page(ListPlace("f" * 32), 7, EVERY, order)


def test_tags_counts_and_jobs_are_those_of_one_catalog(shards: Shards, whole: Directory, tmp_path: Path) -> None:
    fill(shards, whole, tmp_path)
    assert shards.pictures.counts() == whole.catalog.counts()
    assert shards.pictures.tags(10, 10, "", "") == whole.catalog.tags(10, 10)
    assert shards.pictures.tags(1, 1, "", "") == whole.catalog.tags(1, 1)
    assert shards.pictures.tags(10, 10, "red", "third") == whole.catalog.tags(10, 10, "red", "third")
    ours, theirs = shards.jobs.jobs(2), whole.catalog.jobs.latest(2)
    assert [(job.total, job.done, job.state) for job in ours] == [(job.total, job.done, job.state) for job in theirs]
    assert shards.jobs.job(ours[0].job_id) == ours[0]
    assert shards.jobs.job("unknown") is None


def test_failures_of_all_shards_are_one_list(shards: Shards, whole: Directory, tmp_path: Path) -> None:
    for store in (shards.store, LocalPictureStore(whole.catalog, whole.originals)):
        pictures = received(tmp_path, [f"picture {number}" for number in range(12)])
        dated = [replace(one.picture, added_at=NOW + n // 2) for n, one in enumerate(pictures)]
        store.take_in([ReceivedPicture(one.path, new) for one, new in zip(pictures, dated, strict=True)], NOW, 0.0)
    for n, one in enumerate(whole.catalog.list_images(None, 100)):
        for clock, directory in enumerate([whole, *shards.directories] if n < 9 else ()):  # no two of which agree
            directory.catalog.set_aside(one.image_id, "unreadable", NOW + 100 * clock + n % 4)
    expected = whole.catalog.failures.page()
    assert len(expected) == 9
    found: list[Failure] = []
    while page := shards.pictures.failures(failure_key(found[-1]) if found else None, 2):
        found += page
    assert found == expected
    assert [shards.pictures.failure(one.image_id) for one in expected] == expected
    assert shards.pictures.failure("f" * 32) is None


def test_a_picture_is_changed_where_it_lies(shards: Shards, whole: Directory, tmp_path: Path) -> None:
    first, second, *_ = fill(shards, whole, tmp_path, 10)
    change = PictureChange(captions=["another"], tags={"third": None, "new": 1})
    for pictures in (shards.pictures, whole.lists._pictures):
        assert pictures.change(first, change)
        assert not pictures.change("f" * 32, change)
        assert pictures.delete(second, NOW)
        assert not pictures.delete(second, NOW)
    ours, theirs = shards.pictures.image(first), whole.catalog.image(first)
    assert ours is not None
    assert theirs is not None
    assert (ours.captions, ours.tags) == (theirs.captions, theirs.tags) == (("another",), theirs.tags)
    assert shards.pictures.image(second).state == "deleted"  # type: ignore[union-attr]
    assert shards.pictures.restore(second, 0.0)
    assert shards.pictures.image(second).state == "ready"  # type: ignore[union-attr]
    assert shards.pictures.retry(second, NOW) is None


def test_the_same_bytes_are_one_picture(shards: Shards, tmp_path: Path) -> None:
    one, two = received(tmp_path, ["one", "two"])
    copy = ReceivedPicture(tmp_path / "copy", one.picture)
    copy.path.write_bytes(one.path.read_bytes())
    assert shards.store.take_in([one, two, copy], NOW, 0.0).duplicates == [False, False, True]
    again = received(tmp_path, ["two", "one"])
    assert shards.store.take_in(again, NOW + 1, 0.0).duplicates == [True, True]
    assert sum(shards.pictures.counts().values()) == 2


def test_large_requests_go_in_steps_that_keep_copies_together(tmp_path: Path) -> None:
    pictures = received(tmp_path, [f"{number}" for number in range(150)])
    placed = list(enumerate([*pictures, *pictures[:20]]))
    groups = steps(placed)
    assert sorted(number for group in groups for number, _ in group) == list(range(170))
    homes: dict[str, set[int]] = {}
    for n, group in enumerate(groups):
        for _, one in group:
            homes.setdefault(one.picture.image_id, set()).add(n)
    assert all(len(home) == 1 for home in homes.values())
    assert len(groups) > 2


def test_a_shard_that_does_not_answer_is_said(shards: Shards, whole: Directory, tmp_path: Path) -> None:
    ids = fill(shards, whole, tmp_path)
    shards.directories[1].down = True
    with pytest.raises(ShardLost, match="Shard 1"):
        shards.pictures.counts()
    lost = next(one for one in ids if shard_of(one, 3) == 1)
    with pytest.raises(NotReady):
        shards.pictures.delete(lost, NOW)
    there = next(one for one in ids if shard_of(one, 3) == 0)
    assert shards.pictures.delete(there, NOW)


def everything(shards: Shards) -> dict[str, tuple[str, tuple[str, ...], dict[str, Any], float | None]]:
    images = shards.pictures.page(None, 1000, EVERY, "arrival")
    return {one.image_id: (one.filename, one.captions, dict(one.tags), one.taken_at) for one in images}


@pytest.mark.parametrize("seed", range(3))
def test_a_shard_that_is_added_takes_its_share_and_nothing_is_lost(
    shards: Shards, whole: Directory, tmp_path: Path, seed: int
) -> None:
    ids, draw = fill(shards, whole, tmp_path), random.Random(seed)
    shards.add()
    shards.placement = Placement(4, moving_from=3)
    moves = 0
    moving = Rebalancing(MovingShards(shards), 3, linger_s=2.0, clock=lambda: float(moves))
    changed: dict[str, str] = {}
    deleted: set[str] = set()
    while not moving.advance():
        moves += 1
        # Whatever is changed meanwhile, before or after a picture was copied, holds.
        edited, gone = draw.sample(sorted(set(ids) - deleted), 2)
        assert shards.pictures.change(edited, PictureChange(captions=[f"edit {moves}"]))
        changed[edited] = f"edit {moves}"
        if moves % 3 == 0:
            assert shards.pictures.delete(gone, NOW)
            deleted.add(gone)
        if draw.random() < 0.7:
            shards.detect()
        assert set(everything(shards)) == set(ids) - deleted
        assert moves < 100
    shards.placement = Placement(4)
    assert set(everything(shards)) == set(ids) - deleted
    for image_id, caption in changed.items():
        if image_id not in deleted:
            assert everything(shards)[image_id][1] == (caption,)
    for shard, directory in enumerate(shards.directories):
        held = {one.image_id for one in directory.catalog.list_images(None, 1000)}
        assert held == {one for one in set(ids) - deleted if shard_of(one, 4) == shard}
    assert moving.moved
    assert all(shard_of(one, 4) == shard_of(one, 3) or shard_of(one, 4) == 3 for one in ids)


def test_a_release_whose_answer_is_lost_deletes_nothing_else(shards: Shards, whole: Directory, tmp_path: Path) -> None:
    ids = fill(shards, whole, tmp_path)
    shards.add()
    shards.placement = Placement(4, moving_from=3)
    now = 0.0
    moving = Rebalancing(MovingShards(shards), 3, linger_s=0.0, clock=lambda: now)
    sent: list[bool] = []

    def is_lost(method: str) -> bool:
        """Every second answer to a change of the first shards."""
        if method == "apply":
            sent.append(len(sent) % 2 == 0)
        return method == "apply" and sent[-1]

    for directory in shards.directories[:3]:
        directory.answer_lost = is_lost
    for _ in range(300):
        now += 1.0
        shards.detect()
        try:
            if moving.advance():
                break
        except (NotReady, ShardLost):
            for writer in shards.writers:
                writer.tend()
    for directory in shards.directories:
        directory.answer_lost = lambda method: False
    shards.placement = Placement(4)
    for writer in shards.writers:
        writer.tend()
    assert sum(sent) > 3
    assert set(everything(shards)) == set(ids)


def test_pictures_that_were_placed_before_a_shard_came_are_refused(shards: Shards, tmp_path: Path) -> None:
    looks = iter([Placement(2), *[Placement(3)] * 10])
    store = ClusterPictureStore(shards, lambda: next(looks))
    with pytest.raises(NotReady, match="send it again"):
        store.take_in(received(tmp_path, ["one", "two"]), NOW, 0.0)
    assert sum(shards.pictures.counts().values()) == 0
