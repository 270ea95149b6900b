"""A replica that is killed between a change and its journal keeps nothing of it: it is as if nobody had asked."""

import random
from dataclasses import replace
from typing import Any

import pytest

from index.records import NewPicture, PictureChange
from service.cluster.operations import Delete, Edit, Operation, Release, Restore, TakeIn, written
from service.cluster.shards.journal import JournalEntry
from tests.support.directories import NOW, Directory, take_in, writer_of
from tests.support.kill_points import Killed

NAMES = [f"picture {number}" for number in range(5)]
IDS = {name: next(iter(take_in(name)[1])) for name in NAMES}


def said_of(directory: Directory) -> dict[str, Any]:
    """Everything that can be seen of every picture; of what was deleted for good, nothing."""
    images = [directory.catalog.image(image_id) for image_id in IDS.values()]
    there = [one for one in images if one is not None and one.deleted_at != 0.0]
    return {
        one.image_id: (one.filename, one.captions, dict(one.tags), one.taken_at, one.state == "deleted")
        for one in there
    }


def agree_once_detected(pair: list[Directory]) -> bool:
    """Whether replicas show the same once each has found the regions of what waits, as what is deleted goes on to.
    Captions stand in the order of their arrival, which is each replica's own."""
    for directory in pair:
        directory.detect()
    first, second = (
        {name: (said[0], sorted(said[1]), *said[2:]) for name, said in said_of(one).items() if not said[-1]}
        for one in pair
    )
    return first == second


def killed_after(directory: Directory, operation: Operation, files: dict[str, bytes]) -> None:
    """A change that is made, and not written down; then the directory is opened again."""
    here = directory.replica.position()

    def die(*_: Any, **__: Any) -> None:
        raise Killed

    directory.journal.append = die  # type: ignore[method-assign]
    with pytest.raises(Killed):
        directory.replica.apply(JournalEntry(here.sequence + 1, here.checksum, written(operation)), files)
    directory.close()
    directory.open()
    assert directory.replica.position() == here


def drawn(draw: random.Random) -> tuple[Operation, dict[str, bytes]]:
    name = draw.choice(NAMES)
    image_id, kind = IDS[name], draw.randrange(6)
    edit: dict[str, Any] = {"captions": [f"caption {draw.randrange(3)}" for _ in range(draw.randrange(3))]}
    edit |= {"tags": draw.choice([None, {"n": draw.randrange(3)}, {"n": None, "m": "x"}])}
    edit |= {"taken_at": draw.choice([None, NOW]), "filename": draw.choice(["one.png", "two.png"])}
    given = draw.sample(sorted(edit), draw.randint(1, 4))
    others: list[Operation] = [
        Delete(image_id=image_id, now=NOW),
        Restore(image_id=image_id, kept_since=1.0),
        Release(image_id=image_id, since=draw.choice([0, 10_000])),
        Edit(image_id=image_id, changes={field: edit[field] for field in given}),
    ]
    if kind < len(others):
        return others[kind], {}
    operation, files = take_in(*draw.sample(NAMES, 2), job_id=f"job {draw.random()}")
    pictures: list[NewPicture] = [
        replace(
            one,
            captions=[f"caption {draw.randrange(3)}"],
            tags={"n": draw.randrange(3), "k": "new"},
            taken_at=draw.choice([None, NOW + 1]),
        )
        for one in operation.pictures
    ]
    return TakeIn(job_id=operation.job_id, pictures=pictures, now=NOW, kept_since=1.0), files


@pytest.mark.parametrize("seed", range(3))
def test_whatever_a_kill_interrupts_leaves_nothing(pair: list[Directory], seed: int) -> None:
    draw, writer = random.Random(seed), writer_of(pair)
    seen = set()
    for _ in range(30):
        operation, files = drawn(draw)
        before = said_of(pair[0])
        killed_after(pair[0], operation, files)
        assert said_of(pair[0]) == before
        writer.tend()
        seen.add(operation.kind)
        writer.write(*drawn(draw))  # perhaps another one than the one that was lost
        if draw.random() < 0.3:  # a worker hears what the files say at a time of its own
            draw.choice(pair).detect()
        if draw.random() < 0.5:
            assert agree_once_detected(pair)
        assert writer.membership().members == {0, 1}
    assert agree_once_detected(pair)
    assert len(seen) == 5


def test_a_lost_change_that_comes_again_is_made(pair: list[Directory]) -> None:
    operation, files = take_in(*NAMES)
    killed_after(pair[0], operation, files)
    assert pair[0].catalog.list_images(None, 10) == []
    writer = writer_of(pair, 2)
    assert writer.write(operation, files)[0] == 1
    assert pair[0].state() == pair[1].state()
    assert len(pair[0].state()[1]) == len(NAMES)


def test_what_the_worker_added_meanwhile_stays(pair: list[Directory]) -> None:
    replica, (operation, files) = pair[0].replica, take_in("picture 0")
    replica.apply(JournalEntry(1, "", written(operation)), files)
    image_id = IDS["picture 0"]
    here = replica.position()
    edit = Edit(image_id=image_id, changes={"captions": ["said"], "tags": {"n": 1}})

    def work_and_die(*_: Any, **__: Any) -> None:
        pair[0].catalog.change(image_id, _with_caption(pair[0], image_id, "of the file"))
        raise Killed

    pair[0].journal.append = work_and_die  # type: ignore[method-assign]
    with pytest.raises(Killed):
        replica.apply(JournalEntry(2, here.checksum, written(edit)), {})
    pair[0].close()
    pair[0].open()
    assert said_of(pair[0])[image_id][1:3] == (("of the file",), {})


def test_a_change_that_cannot_be_written_down_is_taken_back_at_once(pair: list[Directory]) -> None:
    operation, files = take_in(*NAMES)

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    append, pair[0].journal.append = pair[0].journal.append, fail  # type: ignore[method-assign]
    with pytest.raises(OSError, match="No space"):
        pair[0].replica.apply(JournalEntry(1, "", written(operation)), files)
    assert pair[0].catalog.list_images(None, 10) == []
    assert not any(b"picture 0.png" in path.read_bytes() for path in pair[0].folder.glob("journal*"))
    pair[0].journal.append = append  # type: ignore[method-assign]
    taken = pair[0].replica.apply(JournalEntry(1, "", written(operation)), files)
    assert [one.duplicate for one in taken] == [False] * len(NAMES)
    assert len(pair[0].catalog.list_images(None, 10)) == len(NAMES)


def _with_caption(directory: Directory, image_id: str, text: str) -> PictureChange:
    image = directory.catalog.image(image_id)
    assert image is not None
    return PictureChange(captions=[*image.captions, text])
