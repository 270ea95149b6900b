"""Replication: what is acknowledged is in every live replica, and who was away catches up to the same state."""

import random
import sqlite3
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from service.cluster.directing import shard_writer
from service.cluster.directing.shard_writer import ShardWriter
from service.cluster.operations import (
    BuildView,
    Delete,
    Edit,
    Operation,
    Release,
    Restore,
    Retry,
    read_operation,
    written,
)
from service.cluster.shards.journal import Diverged, Gap, Journal, JournalEntry
from service.errors import NotReady
from service.ingest.picture_store import FileOutcome
from tests.support.directories import NOW, Directory, take_in, writer_of
from tests.support.hasty_sqlite import connect_hastily

NEW, KNOWN = (FileOutcome(duplicate=one, restored=False) for one in (False, True))


def test_operations_are_read_as_they_were_written() -> None:
    operation, _ = take_in("red")
    operations: list[Operation] = [
        operation,
        Delete(image_id="a", now=NOW),
        Restore(image_id="a", kept_since=1.0),
        Edit(image_id="a", changes={"captions": ["one"], "tags": {"n": 5, "m": None, "x": "5"}, "taken_at": None}),
        Retry(image_id="a", job_id="b", now=2.0),
        BuildView(digest="d", now=3.0),
    ]
    for one in operations:
        assert read_operation(written(one)) == one


def test_every_replica_has_what_was_acknowledged(pair: list[Directory]) -> None:
    writer = writer_of(pair)
    operation, files = take_in("red", "blue")
    assert writer.write(operation, files) == (1, [NEW, NEW])
    red, blue = files
    assert writer.write(Delete(image_id=blue, now=NOW)) == (2, True)
    assert writer.write(Delete(image_id=blue, now=NOW)) == (3, False)
    sequence, edited = writer.write(Edit(image_id=red, changes={"captions": ["a red one"], "tags": {"n": 1}}))
    assert (sequence, edited) == (4, pair[0].catalog.image(red))
    assert pair[0].state() == pair[1].state()
    assert pair[0].state()[1:] == ([(red, "red.png", ("a red one",), {"n": 1})], {red, blue})
    assert [one.joined for one in pair] == [True, True]


def test_a_replica_that_was_away_catches_up_before_it_answers(pair: list[Directory]) -> None:
    writer = writer_of(pair)
    writer.write(*take_in("red"))
    pair[1].down = True
    operation, files = take_in("blue", "green")
    assert writer.write(operation, files)[0] == 2
    assert writer.membership().members == {0}
    pair[1].close()
    pair[1].open()
    pair[1].down = False
    assert not pair[1].joined
    writer.tend()
    assert writer.membership().members == {0, 1}
    assert pair[1].joined
    assert (pair[0].settles, pair[1].settles) == (False, True)
    assert pair[0].state() == pair[1].state()


def test_a_member_that_was_started_again_is_let_in_again(pair: list[Directory]) -> None:
    writer = writer_of(pair)
    writer.write(*take_in("red"))
    pair[0].close()
    pair[0].open()
    writer.tend()
    assert pair[0].joined
    assert writer.membership().members == {0, 1}


class Hung:
    """A replica that was stopped, and does not end: no call of it ever returns."""

    name = "hung"

    def begin(self, method: str, *arguments: Any) -> "Future[Any]":
        return Future()


def test_changes_do_not_wait_one_behind_the_other_for_a_replica_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_writer, "POSITION_S", 3.0)
    writer = ShardWriter(0, [Hung()], 1, timeout_s=30.0)

    def change() -> None:
        with pytest.raises(NotReady, match="needs 1 replicas"):
            writer.write(Delete(image_id="a", now=NOW))

    began = time.monotonic()
    with ThreadPoolExecutor(12) as threads:
        for refused in [threads.submit(change) for _ in range(12)]:
            refused.result(timeout=60)
    assert time.monotonic() - began < 24.0  # and not 12 x 3 s, or 12 x 30 s


def test_a_change_does_not_wait_for_ever_for_those_before_it(pair: list[Directory]) -> None:
    writer = ShardWriter(0, pair, 1, timeout_s=30.0, turn_s=0.05)
    begun, ends = threading.Event(), threading.Event()

    def wait() -> bool:
        begun.set()
        return not ends.wait(30.0)

    pair[0].answer_lost = lambda method: method == "apply" and wait()
    with ThreadPoolExecutor(1) as threads:
        before = threads.submit(writer.write, *take_in("blue"))
        assert begun.wait(30.0)
        with pytest.raises(NotReady, match="busy with other changes"):
            writer.write(*take_in("red"))
        ends.set()
        assert before.result(timeout=60)[0] == 1
    assert writer.write(*take_in("red"))[0] == 2


def test_a_shard_is_looked_after_while_a_replica_copies_for_hours(
    pair: list[Directory], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_writer, "FOLLOW_LOOK_S", 0.01)
    writer = writer_of(pair)
    writer.write(*take_in("red"))
    pair[1].down = True
    writer.write(*take_in("blue"))
    begin = pair[1].begin
    monkeypatch.setattr(
        pair[1], "begin", lambda method, *given: Future() if method == "follow" else begin(method, *given)
    )
    began = time.monotonic()
    writer.tend()
    pair[0].close()
    pair[0].open()
    writer.tend()
    assert time.monotonic() - began < 10.0  # of the 30 s that a replica has
    assert pair[0].joined
    assert writer.membership().members == {0}


def test_below_the_quorum_nothing_is_acknowledged(pair: list[Directory]) -> None:
    writer = writer_of(pair, quorum=2)
    writer.write(*take_in("red"))
    pair[1].down = True
    for _ in range(2):
        with pytest.raises(NotReady, match="needs 2 replicas"):
            writer.write(*take_in("blue"))
    pair[1].down = False
    operation, files = take_in("blue")
    assert writer.write(operation, files)[1] in ([KNOWN], [NEW])  # a change that was not acknowledged may be there
    assert pair[0].state() == pair[1].state()
    assert len(pair[0].state()[1]) == 2


def test_an_answer_that_was_lost_is_found_out(pair: list[Directory]) -> None:
    writer = writer_of(pair)
    writer.write(*take_in("red"))
    for one in pair:
        one.answer_lost = lambda method: method == "apply"
    with pytest.raises(NotReady):
        writer.write(*take_in("blue"))
    for one in pair:
        one.answer_lost = lambda method: False
    assert writer.write(*take_in("green"))[0] == 3
    assert pair[0].state() == pair[1].state()
    assert len(pair[0].state()[1]) == 3


def test_a_new_writer_goes_on_from_the_furthest_replica(pair: list[Directory]) -> None:
    first = writer_of(pair)
    first.write(*take_in("red"))
    pair[1].down = True
    first.write(*take_in("blue"))
    pair[1].down = False
    second = writer_of(pair)
    assert second.write(*take_in("green"))[0] == 3
    assert pair[0].state() == pair[1].state()
    assert len(pair[1].state()[1]) == 3


def test_a_new_writer_waits_for_replicas_that_may_know_more(pair: list[Directory]) -> None:
    first, now = writer_of(pair), [0.0]
    first.write(*take_in("red"))
    pair[1].down = True
    first.write(*take_in("blue"))
    pair[1].down, pair[0].down = False, True
    second = ShardWriter(0, pair, 1, 30.0, grace_s=20.0, clock=lambda: now[0])
    with pytest.raises(NotReady):
        second.write(*take_in("green"))
    pair[0].down = False
    assert second.write(*take_in("green"))[0] == 3
    assert pair[0].state() == pair[1].state()


def test_a_replica_with_changes_of_its_own_stays_out(pair: list[Directory]) -> None:
    writer = writer_of(pair)
    writer.write(*take_in("red"))
    pair[1].down = True
    writer.write(*take_in("blue"))
    operation, files = take_in("green")
    here = pair[1].replica.position()
    pair[1].replica.apply(JournalEntry(here.sequence + 1, here.checksum, written(operation)), files)
    pair[1].down = False
    writer.tend()
    assert writer.membership().members == {0}
    with pytest.raises(Diverged):
        pair[1].replica.catch_up(pair[0].replica)


def test_a_change_that_is_refused_changes_nothing(pair: list[Directory]) -> None:
    writer = writer_of(pair)
    _, files = take_in("red")
    writer.write(*take_in("red"))
    with pytest.raises(ValueError, match="a value is a string"):
        writer.write(Edit(image_id=next(iter(files)), changes={"tags": {"n": [1]}}))
    assert writer.write(*take_in("blue"))[0] == 2
    assert pair[0].state() == pair[1].state()


def test_a_journal_waits_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect_hastily(monkeypatch)
    with closing(Journal(tmp_path / "journal.sqlite")) as journal:
        pragmas = [journal._db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]
    assert pragmas == ["wal", 2]


def test_where_a_journal_is_waits_for_no_disk(tmp_path: Path) -> None:
    entries = [JournalEntry(1, "", b"one")]
    entries.append(JournalEntry(2, entries[0].position.checksum, b"two"))
    with closing(Journal(tmp_path / "journal.sqlite")) as journal:
        journal.append(entries[0])
        with ThreadPoolExecutor(1) as threads, journal._lock:  # as while an entry is being written
            assert threads.submit(journal.position).result(timeout=60) == entries[0].position
        with pytest.raises(sqlite3.IntegrityError):
            journal.append(entries[0])
        assert journal.position() == entries[0].position
        journal.append(entries[1])
        assert journal.position() == entries[1].position
    with closing(Journal(tmp_path / "journal.sqlite")) as journal:
        assert journal.position() == entries[1].position


def test_entries_come_in_order_and_once(pair: list[Directory]) -> None:
    replica, (operation, files) = pair[0].replica, take_in("red")
    first = JournalEntry(1, "", written(operation))
    with pytest.raises(Gap):
        replica.apply(JournalEntry(2, "", written(operation)), files)
    assert replica.apply(first, files) == [NEW]
    assert replica.apply(first, files) is None
    with pytest.raises(Diverged):
        replica.apply(JournalEntry(1, "", written(Delete(image_id="x", now=0.0))), {})
    with pytest.raises(Diverged):
        replica.apply(JournalEntry(2, "another", written(operation)), files)
    damaged = dict.fromkeys(files, b"other bytes")
    with pytest.raises(ValueError, match="damaged on their way"):
        replica.apply(JournalEntry(2, first.position.checksum, written(operation)), damaged)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_fails_replicas_end_equal_and_nothing_acknowledged_is_lost(pair: list[Directory], seed: int) -> None:
    draw, writer, acknowledged = random.Random(seed), writer_of(pair), set()
    for number in range(25):
        down = draw.choice([None, None, 0, 1])
        for one in pair:
            # The one that is the last to know may not go away while its sibling is behind: no quorum protects it here.
            one.down = down == pair.index(one) and len(writer.membership().members) == 2
            lost = draw.random() < 0.2
            one.answer_lost = lambda method, lost=lost: lost and method == "apply"  # type: ignore[misc]
        operation, files = take_in(f"{seed} {number}")
        try:
            writer.write(operation, files)
            acknowledged |= set(files)
        except NotReady:
            pass
        if draw.random() < 0.5:
            for one in pair:
                one.down = False
            writer.tend()
    for one in pair:
        one.down, one.answer_lost = False, lambda method: False
    writer.tend()
    assert pair[0].state() == pair[1].state()
    assert acknowledged <= {image_id for image_id, *_ in pair[0].state()[1]}
    assert acknowledged


class RememberedMembers:
    """Members as a file would have them."""

    def __init__(self) -> None:
        self.members: frozenset[int] | None = None

    def read(self) -> frozenset[int] | None:
        return self.members

    def write(self, members: frozenset[int]) -> None:
        self.members = members


def test_a_replica_that_missed_an_acknowledged_change_never_leads(pair: list[Directory]) -> None:
    store = RememberedMembers()
    first = ShardWriter(0, pair, 1, 30.0, members=store)
    first.write(*take_in("red"))
    assert store.members == frozenset({0, 1})
    pair[1].down = True
    first.write(*take_in("blue"))
    assert store.members == {0}
    pair[1].down, pair[0].down = False, True
    second = ShardWriter(0, pair, 1, 30.0, members=store)
    with pytest.raises(NotReady):
        second.write(*take_in("green"))
    pair[0].down = False
    assert second.write(*take_in("green"))[0] == 3
    assert pair[0].state() == pair[1].state()
    assert store.members == frozenset({0, 1})


def test_a_replica_that_is_away_and_missed_nothing_may_lead(pair: list[Directory]) -> None:
    store = RememberedMembers()
    ShardWriter(0, pair, 1, 30.0, members=store).write(*take_in("red"))
    pair[1].down = True
    second = ShardWriter(0, pair, 1, 30.0, members=store)
    second.tend()
    assert second.membership().members == {0}
    assert store.members == frozenset({0, 1})
    pair[1].down, pair[0].down = False, True
    assert ShardWriter(0, pair, 1, 30.0, members=store).write(*take_in("blue"))[0] == 2


def test_what_was_changed_since_is_not_let_go_by_any_replica(pair: list[Directory]) -> None:
    writer = writer_of(pair)
    operation, files = take_in("red", "blue")
    writer.write(operation, files)
    red, blue = files
    writer.write(Edit(image_id=red, changes={"captions": ["another"]}))
    pair[0].detect()  # what one replica knows of its own decides nothing
    assert writer.write(Release(image_id=red, since=1)) == (3, False)
    assert writer.write(Release(image_id=blue, since=1)) == (4, True)
    assert writer.write(Release(image_id=red, since=2)) == (5, True)
    assert [one.catalog.list_images(None, 10) for one in pair] == [[], []]


def test_who_lets_a_picture_go_knows_where_to_also_after_a_restart(pair: list[Directory]) -> None:
    writer = writer_of(pair)
    operation, files = take_in("red", "blue")
    writer.write(operation, files)
    red, blue = files
    assert [one.replica.placed_among() for one in pair] == [0, 0]
    pair[1].down = True
    assert writer.write(Release(image_id=red, since=1, num_shards=3)) == (2, True)
    assert [one.replica.placed_among() for one in pair] == [3, 0]
    pair[1].down = False
    writer.tend()
    assert writer.write(Release(image_id=blue, since=1, num_shards=2)) == (3, True)
    for one in pair:
        one.close()
        one.open()
        assert one.replica.placed_among() == 3


def test_who_keeps_a_picture_that_was_to_go_says_nothing(pair: list[Directory]) -> None:
    writer = writer_of(pair)
    operation, files = take_in("red")
    writer.write(operation, files)
    (red,) = files
    writer.write(Edit(image_id=red, changes={"captions": ["another"]}))
    assert writer.write(Release(image_id=red, since=1, num_shards=2)) == (3, False)
    assert [one.replica.placed_among() for one in pair] == [0, 0]


def test_a_picture_that_one_replica_alone_set_aside_is_tried_again_there(pair: list[Directory]) -> None:
    writer = writer_of(pair)
    operation, files = take_in("red")
    writer.write(operation, files)
    (image_id,) = files
    pair[0].detect()
    pair[1].catalog.queue.set_aside(image_id, "took too long", NOW)
    _, job_id = writer.write(Retry(image_id=image_id, job_id="again", now=NOW))
    assert job_id == "again"
    pair[1].detect()
    assert [one.catalog.counts()["ready"] for one in pair] == [1, 1]
    assert writer.write(Retry(image_id=image_id, job_id="once more", now=NOW))[1] is None
