"""A shard that is added takes its share; nothing is lost, and what cannot be moved stands in no other's way."""

import random
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from index.catalog.filters import EVERY
from index.records import Image, PictureChange
from service.cluster.directing import rebalancing
from service.cluster.directing.rebalancing import Rebalancing
from service.cluster.directing.shard_writer import ShardWriter
from service.cluster.messages import ShardLost
from service.cluster.operations import Delete, Operation, Release, TakeIn
from service.cluster.placement import Placement, shard_of
from service.errors import NotReady
from service.ingest.picture_store import LocalPictureStore, ReceivedPicture
from tests.support.catalogs import is_there
from tests.support.directories import NOW, Directory, take_in
from tests.support.sharded_pictures import NUM, MovingShards, Shards, fill, received

NAMES = [f"picture {number}" for number in range(24)]


@pytest.fixture
def shards(tmp_path: Path) -> Iterator[Shards]:
    with closing(Shards(tmp_path / "shards", 3)) as made:
        yield made


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[Directory]:
    (tmp_path / "whole").mkdir()
    with closing(Directory(tmp_path / "whole", [])) as directory:
        yield directory


Described = dict[str, tuple[str, tuple[str, ...], dict[str, Any], float | None]]


def described(images: Iterable[Image]) -> Described:
    return {one.image_id: (one.filename, one.captions, dict(one.tags), one.taken_at) for one in images}


def everything(shards: Shards) -> Described:
    return described(shards.pictures.page(None, 1000, EVERY, "arrival"))


def said_again(folder: Path, name: str, **said: Any) -> ReceivedPicture:
    """A picture that is sent once more, with something new said of it."""
    (one,) = received(folder, [name])
    return ReceivedPicture(one.path, replace(one.picture, **said))


def id_of(name: str) -> str:
    return next(iter(take_in(name)[1]))


class Both:
    """Changes made to shards and to one catalog, which agree on what comes of each; most are of pictures that move."""

    def __init__(self, shards: Shards, whole: Directory, folder: Path, draw: random.Random) -> None:
        self._shards, self._whole, self._folder, self._draw = shards, whole, folder, draw
        self._count = 0
        names = [f"picture {number}" for number in range(NUM + 8)]  # some of which were never there
        self._names = [*(name for name in names if shard_of(id_of(name), 4) == 3), *names[:4]]

    def change_any(self, *kinds: str) -> None:
        self._count += 1
        name = self._draw.choice(self._names)
        image_id = id_of(name)
        before, was_moving = self._whole.catalog.image(image_id), self._shards.placement.moving_from is not None
        kind, now = self._draw.choice(kinds), NOW + 100 + self._count
        if kind == "edit":
            change = PictureChange(captions=[f"edit {self._count}"], tags={"third": None, "edit": self._count})
            done = [one.change(image_id, change) is not None for one in (self._shards.pictures, self._whole.catalog)]
        elif kind == "delete":
            done = [one.delete(image_id, now) for one in (self._shards.pictures, self._whole.catalog)]
        elif kind == "restore":
            done = [is_there(one.restore(image_id, NOW)) for one in (self._shards.pictures, self._whole.catalog)]
        else:
            said = {"captions": [f"sent {self._count}"], "tags": {"sent": self._count}}
            local = LocalPictureStore(self._whole.catalog, self._whole.originals)
            sent = [
                one.take_in([said_again(self._folder, name, **said)], now, NOW) for one in (self._shards.store, local)
            ]
            done = [[outcome.duplicate for outcome in one.outcomes] == [True] for one in sent]
            for place in (self._shards, self._whole):
                place.detect(image_id)
        if was_moving and self._shards.placement.moving_from is None and before is not None and before.deleted_at:
            # It ended meanwhile, and with it what was deleted where it began.
            for one in (self._shards.pictures, self._whole.catalog):
                one.delete(image_id, now)
        else:
            assert done[0] == done[1], (kind, name)
        self.compare()

    def compare(self) -> None:
        assert everything(self._shards) == described(self._whole.catalog.list_images(None, 1000))


@pytest.mark.parametrize("seed", range(4))
def test_a_shard_that_is_added_takes_its_share_and_nothing_is_lost(
    shards: Shards, whole: Directory, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebalancing, "AT_A_TIME", 2)
    ids, draw = fill(shards, whole, tmp_path), random.Random(seed)
    shards.add()
    shards.placement = Placement(4, moving_from=3)
    steps, ended = 0, False
    moving = Rebalancing(MovingShards(shards), 3, linger_s=2.0, clock=lambda: float(steps))
    both = Both(shards, whole, tmp_path, draw)

    def step(*_: Any) -> None:
        """A step of the move, now and then also between the look of a router and what it has written."""
        nonlocal steps, ended
        if not ended and draw.random() < 0.5:
            steps += 1
            ended = moving.advance()
            if draw.random() < 0.7:
                shards.detect()

    shards.before_write = step
    while not ended:  # whatever is changed meanwhile, before or after a picture was copied, holds
        assert steps < 400
        step()
        both.compare()
        for _ in range(2):
            if steps < 60 and not ended:
                both.change_any("edit", "delete", "restore", "send")
    shards.before_write = lambda *_: None
    assert shards.placement == Placement(4)
    for _ in range(10):
        both.change_any("edit", "delete")
    here = set(everything(shards))
    for shard, directory in enumerate(shards.directories):
        assert held(shards, shard) == {one for one in here if shard_of(one, 4) == shard}
        assert {one.image_id for one in directory.catalog.queue.waiting(100)} <= here
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


@pytest.fixture
def growing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shards]:
    """Pictures of which a shard that was just added is to take its share, two at a time."""
    monkeypatch.setattr(rebalancing, "AT_A_TIME", 2)
    with closing(Shards(tmp_path / "shards", 1)) as made:
        made.store.take_in(received(tmp_path, NAMES), NOW, 0.0)
        made.detect()
        made.add()
        made.placement = Placement(2, moving_from=1)
        yield made


class Move:
    """The move, with a clock that each step sets forward by a second."""

    def __init__(self, shards: Shards) -> None:
        self.now = 0.0
        self._shards = shards
        self.rebalancing = Rebalancing(MovingShards(shards), 1, linger_s=1.0, clock=lambda: self.now)

    def run(self, seconds: int) -> bool:
        """Whether it ended within so many seconds."""
        for _ in range(seconds):
            self.now += 1.0
            if self.rebalancing.advance():
                return True
            self._shards.detect()
        return False


def moving_ids(shards: Shards) -> list[str]:
    """Ids of the pictures that belong to the added shard, in the order of their arrival."""
    images = shards.pictures.page(None, 1000, EVERY, "arrival")
    return [one.image_id for one in images if shard_of(one.image_id, 2) == 1]


def lose_originals(shards: Shards, image_ids: list[str]) -> None:
    for directory in shards.directories:
        for image_id in image_ids:
            directory.originals.path(image_id, "png").unlink(missing_ok=True)


def held(shards: Shards, shard: int) -> set[str]:
    return {one.image_id for one in shards.directories[shard].catalog.list_images(None, 1000)}


def test_lost_originals_keep_no_other_picture_from_moving(growing: Shards) -> None:
    moving = moving_ids(growing)
    lost = moving[:4]
    assert len(moving) > 6
    lose_originals(growing, lost)
    assert not Move(growing).run(200), "both places are still to be looked at"
    assert held(growing, 1) == set(moving) - set(lost)
    assert held(growing, 0) & set(moving) == set(lost)
    for image_id in lost:
        assert growing.pictures.image(image_id) is not None


def test_a_move_ends_once_the_stuck_pictures_are_sent_again_or_deleted(
    growing: Shards, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    moving = moving_ids(growing)
    lost = moving[:2]
    lose_originals(growing, lost)
    move = Move(growing)
    assert not move.run(60)
    assert "2 pictures stay where they are" in caplog.text
    assert move.rebalancing.num_stuck == 2
    assert growing.pictures.delete(lost[0], NOW)
    (again,) = [one for one in received(tmp_path, NAMES) if one.picture.image_id == lost[1]]
    growing.store.take_in([again], NOW, 0.0)
    assert move.run(400)
    assert held(growing, 1) == set(moving) - {lost[0]}
    assert held(growing, 0) & set(moving) == set()


def test_a_picture_that_only_its_old_shard_can_read_stays_there(
    growing: Shards, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    moving = moving_ids(growing)
    target = growing.directories[1]

    def one_fails(self: Directory, only: str | None = None) -> None:
        if self is target:
            self.catalog.queue.set_aside(moving[0], "took too long", NOW)
        detect(self, only)

    detect = Directory.detect
    move = Move(growing)
    with monkeypatch.context() as patch:
        patch.setattr(Directory, "detect", one_fails)
        assert not move.run(60)
    assert "1 pictures stay where they are" in caplog.text
    assert held(growing, 0) & set(moving) == {moving[0]}
    stays = growing.pictures.image(moving[0])
    assert stays is not None
    assert stays.state == "ready"
    assert move.run(400)
    assert held(growing, 1) == set(moving)


def test_a_picture_stays_for_a_while_after_its_copy_is_found(growing: Shards) -> None:
    now = 10.0
    rebalancing = Rebalancing(MovingShards(growing), 1, linger_s=5.0, clock=lambda: now)
    copied = set(moving_ids(growing)[:2])
    rebalancing.advance()
    growing.detect()
    for seconds, stay in ((0.0, copied), (4.999, copied), (5.0, set[str]())):
        now = 10.0 + seconds
        rebalancing.advance()
        assert held(growing, 0) & copied == stay
        assert copied <= held(growing, 1)


def test_others_are_copied_while_copies_linger(growing: Shards, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebalancing, "MOST_COPIED", 5)
    moving, times = moving_ids(growing), [10.0]
    move = Rebalancing(MovingShards(growing), 1, linger_s=5.0, clock=lambda: times[-1])
    assert len(moving) > 8
    for step in range(6):
        assert held(growing, 1) == set(moving[: min(2 * step, 6)])  # two at a time, until there are five
        assert not move.advance()
    assert held(growing, 0) >= set(moving)
    growing.detect()
    for times[-1] in (10.0, 15.0, 16.0):
        assert not move.advance()
    assert held(growing, 0).isdisjoint(moving[:6])
    assert held(growing, 1) == set(moving[:10])
    for times[-1] in range(17, 200):
        if move.advance():
            break
        growing.detect()
    assert held(growing, 1) == set(moving)
    assert (move.moved, move._found_at) == (len(moving), {})


def test_a_group_that_a_fault_ends_is_copied_once(growing: Shards, monkeypatch: pytest.MonkeyPatch) -> None:
    write, copied = ShardWriter.write, list[str]()

    def fail_at_the_second(self: ShardWriter, operation: Operation, files: Any = None) -> tuple[int, Any]:
        if isinstance(operation, TakeIn):
            copied.extend(one.image_id for one in operation.pictures)
            if len(copied) == 2:
                raise NotReady("the answer was lost")
        return write(self, operation, files)

    moving = moving_ids(growing)
    monkeypatch.setattr(ShardWriter, "write", fail_at_the_second)
    move = Rebalancing(MovingShards(growing), 1, linger_s=5.0, clock=lambda: 10.0)
    with pytest.raises(NotReady):
        move.advance()
    for _ in range(2):
        assert not move.advance()
    assert copied == [moving[0], *moving[1:2] * 2, *moving[2:4]]


def test_a_move_whose_last_step_fails_does_not_end(growing: Shards, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebalancing, "PASSES", 1)
    move, write, failed = Move(growing), ShardWriter.write, list[str]()

    def fail_once(self: ShardWriter, operation: Operation, files: Any = None) -> tuple[int, Any]:
        if isinstance(operation, Release) and operation.image_id not in failed:
            failed.append(operation.image_id)
            raise NotReady("the answer was lost")
        return write(self, operation, files)

    monkeypatch.setattr(ShardWriter, "write", fail_once)
    moving = moving_ids(growing)
    for _ in range(200):
        try:
            if move.run(1):
                break
        except NotReady:
            continue
    assert sorted(failed) == sorted(moving)
    assert held(growing, 0) & set(moving) == set()
    assert growing.placement == Placement(2)


def test_what_is_said_of_a_picture_that_moves_is_said_of_the_copy(growing: Shards, tmp_path: Path) -> None:
    sent = said_again(
        tmp_path, next(name for name in NAMES if id_of(name) in moving_ids(growing)[-1:]), captions=["new"]
    )
    assert [one.duplicate for one in growing.store.take_in([sent], NOW + 50, 0.0).outcomes] == [True]
    assert Move(growing).run(200)
    image = growing.pictures.image(sent.picture.image_id)
    assert image is not None
    assert "new" in image.captions


@pytest.mark.parametrize("comes_back", ["restored", "sent again"])
def test_a_copied_picture_that_is_deleted_and_comes_back_stays(
    growing: Shards, tmp_path: Path, comes_back: str
) -> None:
    move, image_id = Move(growing), moving_ids(growing)[0]
    assert not move.run(1)
    assert image_id in held(growing, 1)
    assert growing.pictures.delete(image_id, NOW + 60)
    if comes_back == "restored":
        assert is_there(growing.pictures.restore(image_id, NOW))
    else:
        name = next(name for name in NAMES if id_of(name) == image_id)
        growing.store.take_in([said_again(tmp_path, name)], NOW + 70, NOW)
    assert move.run(200)
    assert held(growing, 1) >= {image_id}
    assert image_id not in held(growing, 0)


def test_a_picture_that_is_deleted_where_it_was_is_deleted_where_it_goes(growing: Shards) -> None:
    now = 0.0
    rebalancing = Rebalancing(MovingShards(growing), 1, linger_s=1.0, clock=lambda: now)
    gone, kept = moving_ids(growing)[:2]
    rebalancing.advance()
    growing.detect()
    assert growing.write(0, Delete(image_id=gone, now=NOW))
    rebalancing.advance()
    now = 1.0
    rebalancing.advance()
    states = [growing.directories[1].catalog.image(one).state for one in (gone, kept)]  # type: ignore[union-attr]
    assert states == ["deleted", "ready"]
