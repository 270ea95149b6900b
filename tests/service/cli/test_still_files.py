"""Files that wait to be sent, and the journal of those that were."""

import os
from pathlib import Path

import pytest

from service.cli.ingesting.sent_files import FileState, SentFiles, state_of
from service.cli.ingesting.still_files import StillFiles
from tests.support.set_clock import Clock

STILL_FOR_S = 3.0


@pytest.fixture
def sent(tmp_path: Path) -> SentFiles:
    return SentFiles(tmp_path / "state" / "sent.jsonl")


def test_a_file_is_sent_when_it_has_stopped_growing(sent: SentFiles, tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "a.jpg"
    still = StillFiles(sent, STILL_FOR_S, clock)
    path.write_bytes(b"half")
    assert still.look([path]) == {}
    clock.now += STILL_FOR_S - 0.1
    path.write_bytes(b"half and more")
    assert still.look([path]) == {}
    clock.now += STILL_FOR_S - 0.1
    assert still.look([path]) == {}
    clock.now += 0.1
    state = state_of(path)
    assert state is not None
    assert still.look([path]) == {path: state}
    assert still.num_unsent == 1
    sent.add(path, state)
    assert still.look([path]) == {}
    assert still.num_unsent == 0
    os.utime(path, ns=(0, 1))  # written again, and as long as before
    assert still.look([path]) == {}
    clock.now += STILL_FOR_S
    assert list(still.look([path, tmp_path / "gone.jpg"])) == [path]


def test_what_was_sent_is_known_after_a_restart_and_a_kill_loses_one_line_at_most(tmp_path: Path) -> None:
    journal, names = tmp_path / "sent.jsonl", [b"a.jpg", "ä\n.jpg".encode(), b"\xff.jpg"]
    paths = [tmp_path / os.fsdecode(name) for name in names]
    states = {}
    for path in paths:
        path.write_bytes(b"x")
        state = state_of(path)
        assert state is not None
        states[path] = state
    for path in paths:
        SentFiles(journal).add(path, states[path])
    again = SentFiles(journal)
    assert [again.has(path, states[path]) for path in paths] == [True] * 3
    assert not again.has(paths[0], states[paths[0]]._replace(num_bytes=2))
    journal.write_bytes(journal.read_bytes()[:-5])  # cut off in the middle of the last line
    cut = SentFiles(journal)
    assert [cut.has(path, states[path]) for path in paths] == [True, True, False]
    cut.add(paths[2], states[paths[2]])
    assert SentFiles(journal).has(paths[2], states[paths[2]])
    assert len(SentFiles(journal)) == 3


def test_the_journal_is_written_anew_once_most_of_it_is_of_before(tmp_path: Path) -> None:
    journal, path = tmp_path / "sent.jsonl", tmp_path / "a.jpg"
    sent = SentFiles(journal)
    for turn in range(40):
        sent.switch_to(("first", "second")[turn % 2])
        sent.add(path, FileState(1, turn), f"c{turn % 4}")
    for _ in range(2):
        again = SentFiles(journal)
        assert len(journal.read_bytes().splitlines()) == 4  # of each collection the file and a former content
        again.switch_to("first")
        assert [again.has(path, FileState(1, turn)) for turn in (36, 38, 39)] == [False, True, False]
        assert [again.has_content(f"c{turn}") for turn in range(4)] == [True, False, True, False]


def test_what_was_sent_to_one_collection_was_not_to_another(tmp_path: Path) -> None:
    journal, paths = tmp_path / "sent.jsonl", [tmp_path / name for name in ("old.jpg", "one.jpg", "two.jpg")]
    states = {}
    for path in paths:
        path.write_bytes(b"x")
        state = state_of(path)
        assert state is not None
        states[path] = state

    def known(collection: str | None) -> list[str]:
        again = SentFiles(journal)
        again.switch_to(collection)
        return [path.stem for path in paths if again.has(path, states[path])]

    old, one, two = paths
    SentFiles(journal).add(old, states[old])  # where a service tells no collection
    assert known(None) == ["old"]
    sent = SentFiles(journal)
    assert [sent.switch_to("first"), sent.switch_to("first")] == [True, False]
    assert len(sent) == 0
    sent.add(one, states[one])
    sent.switch_to("second")
    assert len(sent) == 0
    sent.add(two, states[two])
    assert [known("second"), known("first"), known("third"), known(None)] == [["two"], ["one"], [], ["old"]]
    sent.add(two, states[two], "c0")
    again = SentFiles(journal)
    assert [again.switch_to(name) and again.has_content("c0") for name in ("first", "second")] == [False, True]
