"""A shard that is added takes its share; nothing is lost, and what cannot be moved stands in no other's way."""

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from index.filters import EVERY
from index.records import PictureChange
from service.cluster import rebalancing
from service.cluster.messages import ShardLost
from service.cluster.operations import Delete
from service.cluster.placement import Placement, shard_of
from service.cluster.rebalancing import Rebalancing
from service.errors import NotReady
from tests.support.directories import NOW, Directory
from tests.support.sharded_pictures import MovingShards, Shards, fill, received

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
        self._rebalancing = Rebalancing(MovingShards(shards), 1, linger_s=1.0, clock=lambda: self.now)

    def run(self, seconds: int) -> bool:
        """Whether it ended within so many seconds."""
        for _ in range(seconds):
            self.now += 1.0
            if self._rebalancing.advance():
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
    assert growing.pictures.delete(lost[0], NOW)
    (again,) = [one for one in received(tmp_path, NAMES) if one.picture.image_id == lost[1]]
    growing.store.take_in([again], NOW, 0.0)
    assert move.run(400)
    assert held(growing, 1) == set(moving) - {lost[0]}
    assert held(growing, 0) & set(moving) == set()


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
