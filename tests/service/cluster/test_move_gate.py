"""The gate of changes while pictures move: each goes where its picture is, and none slips past the end of the move."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from service.cluster.directing.move_gate import MoveGate
from service.cluster.messages import Moved
from service.cluster.operations import Delete, Edit, Operation, Restore
from service.cluster.placement import Placement, shard_of
from service.errors import NotReady
from tests.support.directories import NOW, take_in

MOVES = next(name for name in map(str, range(99)) if shard_of(next(iter(take_in(name)[1])), 2) == 1)
IMAGE_ID = next(iter(take_in(MOVES)[1]))
MOVING = Placement(2, moving_from=1)


class Source:
    """The shard that pictures are moved from."""

    def __init__(self) -> None:
        self.held = [IMAGE_ID]

    def look(self, shard: int, image_ids: Sequence[str]) -> list[str]:
        assert shard == 0
        return [image_id for image_id in image_ids if image_id in self.held]


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def gate(source: Source) -> MoveGate:
    return MoveGate(source.look, MOVING, turn_s=0.05)


def passes(gate: MoveGate, shard: int, operation: Operation, num_shards: int = 2) -> None:
    with gate.passing(shard, operation, num_shards):
        pass


CHANGES: list[Operation] = [
    take_in(MOVES)[0],
    Edit(image_id=IMAGE_ID, changes={"captions": ["one"]}),
    Restore(image_id=IMAGE_ID, kept_since=0.0),
]


@pytest.mark.parametrize("operation", CHANGES)
def test_a_change_goes_to_the_shard_that_has_the_picture(gate: MoveGate, source: Source, operation: Operation) -> None:
    passes(gate, 0, operation)
    with pytest.raises(Moved, match="send it again"):
        passes(gate, 1, operation)
    source.held.clear()  # let go
    passes(gate, 1, operation)
    with pytest.raises(Moved):
        passes(gate, 0, operation)


def test_a_deletion_is_made_in_both(gate: MoveGate) -> None:
    for shard in (0, 1):
        passes(gate, shard, Delete(image_id=IMAGE_ID, now=NOW))


def test_a_change_waits_for_a_step_of_the_move(gate: MoveGate) -> None:
    gate = MoveGate(Source().look, MOVING, turn_s=30.0)
    made = Event()

    def change() -> None:
        with gate.passing(0, CHANGES[0], 2):
            made.set()

    with ThreadPoolExecutor(1) as threads:
        with gate.step(IMAGE_ID):
            changing = threads.submit(change)
            assert not made.wait(0.05)
        changing.result(timeout=30)
    assert made.is_set()


def test_a_change_does_not_wait_for_ever(gate: MoveGate) -> None:
    with gate.step(IMAGE_ID), pytest.raises(NotReady, match="Another change"):
        passes(gate, 0, CHANGES[0])
    passes(gate, 0, CHANGES[0])


def test_what_was_placed_among_other_shards_is_refused(gate: MoveGate) -> None:
    with pytest.raises(NotReady, match="A shard was added"):
        passes(gate, 0, CHANGES[0], num_shards=1)


@pytest.mark.parametrize("operation", [CHANGES[0], CHANGES[2]])
def test_a_picture_that_came_back_keeps_the_move_from_ending(
    gate: MoveGate, source: Source, operation: Operation
) -> None:
    kept: list[bool] = []
    gate.begin_pass()
    passes(gate, 0, operation)
    assert not gate.finish(lambda: kept.append(True))
    gate.begin_pass()
    source.held.clear()
    passes(gate, 1, operation)
    assert gate.finish(lambda: kept.append(True))
    assert (kept, gate.placement) == ([True], Placement(2))


def test_a_change_that_began_before_the_shard_was_there_is_not_overlooked(source: Source) -> None:
    gate = MoveGate(source.look, Placement(1), turn_s=0.05)
    with gate.passing(0, CHANGES[0], 1):
        gate.place(MOVING)
        gate.begin_pass()
        assert not gate.finish(lambda: None)
        with pytest.raises(NotReady, match="Another change"):
            passes(gate, 1, CHANGES[0])
    assert not gate.finish(lambda: None)
    gate.begin_pass()
    assert gate.finish(lambda: None)


def test_after_the_move_only_the_new_shard_takes_the_picture(gate: MoveGate) -> None:
    gate.begin_pass()
    assert gate.finish(lambda: None)
    passes(gate, 1, CHANGES[0])
    with pytest.raises(Moved):
        passes(gate, 0, CHANGES[0])
