"""Journals describe erased pictures in no file of any replica, whoever is killed or away."""

import random
import signal
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Semaphore
from typing import Any

import pytest

from index import fault_points
from service.cluster.operations import Delete, Edit, TakeIn, written
from service.cluster.shards.journal import Diverged, JournalEntry
from service.cluster.shards.journal_erasure import erasing
from service.worker.maintenance.compaction import compact_data_dir
from tests.support.directories import NOW, Directory, take_in, writer_of
from tests.support.fault_walk import in_child

GRACE_S = 60.0
NAMES = [f"picture {number}" for number in range(4)]
IDS = [next(iter(take_in(name)[1])) for name in NAMES]


def said(text: str, *places: int, now: float = NOW) -> tuple[TakeIn, dict[str, bytes]]:
    """Pictures that say `text` wherever they can."""
    operation, files = take_in(*(NAMES[place] for place in places))
    described: dict[str, Any] = {
        "filename": text,
        "captions": [text],
        "tags": {text: text},
        "decided_fields": ("tags." + text,),
    }
    pictures = [replace(one, **described) for one in operation.pictures]
    return replace(operation, pictures=pictures, now=now, kept_since=now - GRACE_S), files


def edited(text: str, place: int) -> Edit:
    return Edit(image_id=IDS[place], changes={"captions": [text], "tags": {"who": text}, "filename": text})


def erase(directory: Directory, now: float) -> None:
    """As the worker and the replica do after the grace period, and `regard compact`."""
    compact_data_dir(directory.folder, GRACE_S, lambda: now)
    directory.replica.erase_descriptions()


def found_in(folder: Path, *texts: str) -> list[str]:
    content = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    return [text for text in texts if text.encode() in content]


@pytest.mark.parametrize("seed", range(4))
def test_no_file_of_any_replica_holds_what_was_said_of_erased_pictures(
    pair: list[Directory], tmp_path: Path, seed: int
) -> None:
    draw, writer, now, texts = random.Random(seed), writer_of(pair), NOW, list[str]()
    for step in range(40):
        away = draw.choice([None, None, *pair])
        for one in pair:  # one that missed a change is never the only one
            one.down = one is away and len(writer.membership().members) == 2
        place = draw.randrange(4)
        texts.append(f"{draw.getrandbits(64):016x}")
        taken = said(texts[-1], place, draw.randrange(4), now=now)
        deletion = Delete(image_id=IDS[place], now=now)
        changes: list[tuple[Any, ...]] = [taken, (edited(texts[-1], place),), (deletion,)]
        writer.write(*draw.choice(changes))
        now += draw.choice([1.0, 2 * GRACE_S])
        if draw.random() < 0.3:
            erase(next(one for one in pair if not one.down), now)
        if draw.random() < 0.5 or step == 39:
            pair[0].down = pair[1].down = False
            writer.tend()
    for image_id in IDS:
        writer.write(Delete(image_id=image_id, now=now))
    now += 2 * GRACE_S
    erase(pair[0], now)
    writer.write(*said("come again", *range(4), now=now))
    erase(pair[1], now)
    (tmp_path / "c").mkdir()
    with closing(Directory(tmp_path / "c", [])) as third:
        third.replica.catch_up(pair[1].replica)
        for one in (*pair, third):
            erase(one, now)
            assert found_in(one.folder, "come again", *texts) == ["come again"]
            assert one.journal.hidden() == []
            one.journal.check()
            assert one.state() == pair[0].state()


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("place", [f"{point}:{n}" for point in ("before-commit", "after-commit") for n in (1, 2)])
def test_a_kill_at_any_commit_leaves_a_journal_that_the_next_turn_cleans(
    pair: list[Directory], place: str, old: bool
) -> None:
    (directory, _), writer, later = pair, writer_of(pair[:1]), NOW + 2 * GRACE_S
    writer.write(*said("the first", 0, 1, 2))
    writer.write(Delete(image_id=IDS[0], now=NOW))
    writer.write(edited("too late", 0))
    writer.write(Delete(image_id=IDS[1], now=NOW))
    writer.write(*said("restored", 1))
    writer.write(Delete(image_id=IDS[2], now=later))  # not erased yet
    compact_data_dir(directory.folder, GRACE_S, lambda: later)
    directory.close()
    if old:
        with closing(sqlite3.connect(directory.folder / "journal.sqlite")) as journal:
            journal.executescript("DROP TABLE hidden; PRAGMA user_version = 0")

    def die() -> None:
        directory.open()
        fault_points.arm(place)
        directory.replica.erase_descriptions()

    assert in_child(die) == -signal.SIGKILL
    directory.open()
    directory.journal.check()
    directory.replica.erase_descriptions()
    directory.journal.check()
    assert found_in(directory.folder, "too late", "restored") == ["restored"]
    first = directory.journal.after(0, 1)[0].content
    assert first.count(b"the first") == 2 * 5  # of the two that are there
    assert {one.image_id for one in directory.journal.hidden()} == {IDS[2]}
    directory.journal.overwrite({1: first.replace(b"the first", b"the other")})
    with pytest.raises(Diverged, match="entry 1 is damaged"):
        directory.journal.check()


def test_what_is_said_of_other_pictures_stays(pair: list[Directory]) -> None:
    writer = writer_of(pair[:1])
    writer.write(*said("gone", 0, 1))
    writer.write(Edit(image_id=IDS[1], changes={"tags": {"image_id": IDS[0]}}))
    writer.write(Delete(image_id=IDS[0], now=NOW))
    erase(pair[0], 2 * NOW)
    pair[1].replica.catch_up(pair[0].replica)
    assert pair[1].state() == pair[0].state()


def test_no_change_waits_for_a_reader(pair: list[Directory]) -> None:
    replica, folder = pair[0].replica, pair[0].folder
    pair[0].journal._db.execute("PRAGMA busy_timeout = 3600000")
    entry = JournalEntry(1, "", written(said("given up", 0)[0]))
    with ThreadPoolExecutor(1) as threads, closing(sqlite3.connect(folder / "journal.sqlite")) as reader:
        reader.executescript("BEGIN; SELECT * FROM entries")
        with pytest.raises(ValueError, match="damaged"):
            threads.submit(replica.apply, entry, {IDS[0]: b""}).result(60.0)
        replica.erase_descriptions()
        assert found_in(folder, "given up")
    replica.erase_descriptions()
    assert not found_in(folder, "given up")


def test_it_goes_on_whatever_fails() -> None:
    turns = Semaphore(0)

    def fail() -> None:
        turns.release()
        raise OSError(28, "No space left on device")

    with erasing(fail, every_s=0.001):
        assert all(turns.acquire(timeout=60.0) for _ in range(2))
