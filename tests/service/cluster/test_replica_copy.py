"""A replica made of its sibling is that sibling, also when the sibling changes or the making is ended midway."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import PIL.Image
import pytest

from index.records import NewPicture
from models.extractors.base import Detections
from service.cluster.messages import Behind
from service.cluster.operations import Delete, Operation, TakeIn, written
from service.cluster.shards import replica_copy
from service.cluster.shards.journal import Diverged, Journal, JournalEntry
from service.cluster.shards.replica_copy import (
    COPY,
    PART_BYTES,
    TOGETHER_BYTES,
    CopiedFile,
    CopyDamaged,
    CopyListing,
    CopyPart,
    DirectoryCopies,
    PartContent,
    copy_replica,
    part_groups,
)
from service.cluster.shards.replica_host import ReplicaHost
from service.storage.originals import image_id_of
from service.storage.verification import find_damage
from tests.support.directories import NOW, Directory
from tests.support.fakes import FakeExtractor
from tests.support.kill_points import Killed, decode_here
from tests.support.pictures import encoded
from tests.support.processes import wait_until
from tests.support.worker_store import Store, noise


class Blind(FakeExtractor):
    """A detector that is not to be asked."""

    def extract(self, pictures: Sequence[PIL.Image.Image]) -> Detections:
        raise AssertionError("the regions are there")


class Source(DirectoryCopies):
    """A sibling; `between` is called before each call that reads parts."""

    def __init__(self, directory: Directory) -> None:
        super().__init__(directory.folder, directory.replica)
        self.calls = 0
        self.between: Callable[[], None] = lambda: None
        self.spoil: Callable[[bytes], bytes] = lambda content: content

    def read_copy(self, name: str, parts: Sequence[CopyPart]) -> Sequence[PartContent]:
        contents: list[PartContent] = []
        for part in parts:
            self.calls += 1
            self.between()
            (found,) = super().read_copy(name, [part])
            contents.append(PartContent(self.spoil(found.content), found.sha256))
        return contents


def pictures(*seeds: int) -> tuple[TakeIn, dict[str, bytes]]:
    """Pictures that can be decoded."""
    contents = {seed: encoded(noise(seed), "PNG") for seed in seeds}
    files = {image_id_of(sha256(content).hexdigest()): content for content in contents.values()}
    made = [
        NewPicture(image_id=image_id, filename=f"{seed}.png", extension="png", num_bytes=len(content))
        for seed, (image_id, content) in zip(seeds, files.items(), strict=True)
    ]
    return TakeIn(job_id=f"job {seeds}", pictures=made, now=NOW, kept_since=0.0), files


def write(directory: Directory, operation: Operation, files: dict[str, bytes] | None = None) -> None:
    here = directory.replica.position()
    directory.replica.apply(JournalEntry(here.sequence + 1, here.checksum, written(operation)), files or {})


@pytest.fixture
def sibling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Directory]:
    """Five pictures with regions, one of them deleted, and one that waits."""
    decode_here(monkeypatch)
    (tmp_path / "a").mkdir()
    with closing(Directory(tmp_path / "a", [])) as directory:
        operation, files = pictures(0, 1, 2, 3, 4)
        write(directory, operation, files)
        Store(directory.folder).drain()
        write(directory, Delete(image_id=operation.pictures[1].image_id, now=NOW))
        write(directory, *pictures(5))
        yield directory


def assert_equal(folder: Path, sibling: Directory) -> None:
    assert list(find_damage(folder)) == []
    with closing(Directory(folder, [])) as copy:
        assert copy.state() == sibling.state()
        assert copy.catalog.counts() == sibling.catalog.counts()
        assert copy.catalog.collection().id != sibling.catalog.collection().id
    num = sibling.catalog.num_slots()
    records = [(one / "regions" / "records.bin").read_bytes() for one in (folder, sibling.folder)]
    assert num == 5
    assert len(records[0]) % num == 0
    assert records[1].startswith(records[0])


def test_a_copy_is_the_sibling_and_its_regions_are_not_found_again(sibling: Directory, tmp_path: Path) -> None:
    source = Source(sibling)
    copy_replica(source, tmp_path / "b")
    assert_equal(tmp_path / "b", sibling)
    assert not list(tmp_path.glob("*copy*"))
    assert not list(tmp_path.glob("*partial*"))
    with closing(Directory(tmp_path / "b", [])) as copy:
        (queued,) = copy.catalog.queue.waiting(10)
        copy.catalog.queue.set_aside(queued.image_id, "not looked at here", NOW)
    Store(tmp_path / "b").drain(Blind())
    assert (tmp_path / "b" / "views").is_dir()


def test_changes_go_on_and_are_caught_up_with(sibling: Directory, tmp_path: Path) -> None:
    source = Source(sibling)
    taken: list[int] = []

    def change() -> None:
        taken.append(100 + len(taken))
        write(sibling, *pictures(taken[-1]))

    source.between = change
    copy_replica(source, tmp_path / "b")
    assert len(taken) > 10
    with closing(Directory(tmp_path / "b", [])) as copy:
        assert copy.replica.position().sequence == 3
        copy.replica.catch_up(sibling.replica)
        assert copy.state() == sibling.state()
        assert len(copy.state()[1]) == 5 + len(taken)


@pytest.mark.parametrize("at", [1, 4, 9])
def test_whoever_is_killed_midway_begins_anew(sibling: Directory, tmp_path: Path, at: int) -> None:
    source = Source(sibling)

    def die() -> None:
        if source.calls == at:
            raise Killed

    source.between = die
    source.end_copy = lambda name: None  # type: ignore[method-assign]
    with pytest.raises(Killed):
        copy_replica(source, tmp_path / "b")
    assert not (tmp_path / "b").exists()
    assert (tmp_path / "b.partial").exists()
    write(sibling, Delete(image_id=sibling.state()[1][0][0], now=NOW))
    copy_replica(Source(sibling), tmp_path / "b")
    assert_equal(tmp_path / "b", sibling)
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["a", "b"]


def test_what_is_damaged_on_its_way_is_refused(sibling: Directory, tmp_path: Path) -> None:
    source = Source(sibling)
    source.spoil = lambda content: content[:-1] + bytes([content[-1] ^ 1])
    with pytest.raises(CopyDamaged, match="on its way"):
        copy_replica(source, tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_a_journal_that_lost_an_entry_is_refused(sibling: Directory, tmp_path: Path) -> None:
    with closing(Journal(tmp_path / "whole.sqlite")) as journal:
        journal.check()
    sibling.journal.check()
    with closing(sqlite3.connect(sibling.folder / "journal.sqlite", isolation_level=None)) as journal_file:
        journal_file.execute("UPDATE entries SET content = x'00' WHERE sequence = 2")
    with pytest.raises(Diverged, match="entry 2"):
        copy_replica(Source(sibling), tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_a_file_is_read_in_parts_of_bounded_size() -> None:
    files = [CopiedFile("empty", 0), CopiedFile("large", 3 * PART_BYTES + 1)]
    files += [CopiedFile(f"{n}", 1000) for n in range(1000)]
    groups = list(part_groups(files))
    for group in groups:
        assert sum(part.length for part in group) <= TOGETHER_BYTES
    read: dict[str, int] = {}
    for part in (part for group in groups for part in group):
        assert part.offset == read.get(part.name, 0)
        read[part.name] = part.offset + part.length
    assert read == dict(files)
    assert len(groups) < 12


def copies_beside(directory: Directory) -> set[str]:
    """Names of the copies of a directory that are still there."""
    before = directory.name + COPY
    return {path.name.removeprefix(before) for path in directory.folder.parent.glob(f"{before}*")}


class Node:
    """What runs on a directory."""

    def __init__(self, folder: Path) -> None:
        self.directory = Directory(folder, [])

    def follow(self, sibling: object) -> object:
        return self.directory.replica.position()


class WholeSibling(Source):
    """A sibling that copies alone are asked of."""

    entries_after = originals_of = position_at = None


def test_a_copy_that_nobody_reads_on_is_let_go_of(sibling: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    copies = Source(sibling)
    read_on: CopyListing = copies.begin_copy()
    copies._end_if_abandoned(read_on.name)  # as its timer does, much later
    assert copies_beside(sibling) == {read_on.name}
    monkeypatch.setattr(replica_copy, "ABANDONED_S", 0.01)
    abandoned: CopyListing = copies.begin_copy()
    wait_until(lambda: abandoned.name not in copies_beside(sibling))
    copies.end_copy(read_on.name)


def is_open(host: ReplicaHost) -> bool:
    """Whether it is open now: mypy takes an attribute for what it was when it was last asserted."""
    return host.is_open


def test_a_replica_that_is_made_anew_answers_nothing_before(sibling: Directory, tmp_path: Path) -> None:
    folder = tmp_path / "b"
    host = ReplicaHost(folder, lambda: Node(folder), is_anew=True)  # type: ignore[arg-type,return-value]
    assert not is_open(host)
    with pytest.raises(Behind, match="being made"):
        _ = host.node
    assert host.follow(WholeSibling(sibling)) == sibling.replica.position()  # type: ignore[arg-type]
    assert is_open(host)
    host.node.directory.close()  # type: ignore[attr-defined]
    again = ReplicaHost(folder, lambda: Node(folder), is_anew=True)  # type: ignore[arg-type,return-value]
    assert again.is_open
    again.node.directory.close()  # type: ignore[attr-defined]
    shutil.rmtree(folder)
    listing: CopyListing = Source(sibling).begin_copy()
    assert {"catalog.sqlite", "journal.sqlite", "regions/records.bin"} <= {file.name for file in listing.files}


def test_a_copy_that_cannot_be_started_is_not_made_again(
    sibling: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, starts = tmp_path / "b", list[int]()

    def opened() -> Node:
        starts.append(len(starts))
        if len(starts) == 1:
            raise OSError("too many open files")
        return Node(folder)

    host = ReplicaHost(folder, opened, is_anew=True)  # type: ignore[arg-type]
    with pytest.raises(OSError, match="too many"):
        host.follow(WholeSibling(sibling))  # type: ignore[arg-type]
    monkeypatch.setattr("service.cluster.shards.replica_host.copy_replica", lambda *_: pytest.fail("copied again"))
    assert host.follow(WholeSibling(sibling)) == sibling.replica.position()  # type: ignore[arg-type]
    host.node.directory.close()  # type: ignore[attr-defined]
