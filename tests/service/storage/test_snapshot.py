"""A snapshot of a store that is written to meanwhile makes another store, equal record by record."""

import errno
import os
import shutil
import stat
import tarfile
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from index.catalog.catalog import Catalog
from index.catalog.database.faults import DamagedCatalog
from index.records import Image, PictureChange
from service.clocks import Clocks
from service.errors import UserError
from service.storage.data_dir import DataDir
from service.storage.data_dir_lock import lock_data_dir
from service.storage.regions.found_regions import FoundRegions
from service.storage.snapshots.restoration import restore_snapshot
from service.storage.snapshots.snapshot import SCRATCH, SnapshotContent, take_snapshot
from service.storage.temporary_folders import locked_folder
from service.worker.maintenance.erasure import Erasure
from tests.support.catalogs import is_there
from tests.support.cli_runner import Regard
from tests.support.fakes import FakeExtractor
from tests.support.feature_layouts import take_in, theirs
from tests.support.pictures import encoded
from tests.support.worker_store import COLOURS, NOW, Store, noise

NUM = 8


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Eight pictures: one deleted, one that waits, one erased."""
    made = Store(tmp_path / "data")
    ids = [made.accept(encoded(noise(seed), "PNG"), captions=[COLOURS[seed]]) for seed in range(NUM - 1)]
    made.drain()
    made.catalog.delete(ids[1], NOW)
    made.catalog.delete(ids[2], NOW - 100)
    Erasure(made.catalog, made.originals, FoundRegions(made.folder), 50.0, Clocks(lambda: NOW)).advance()
    made.accept(encoded(noise(NUM - 1), "PNG"), captions=["waits"])
    yield made
    made.catalog.close()


def test_what_was_deleted_can_be_brought_back_after_a_restore(store: Store, tmp_path: Path) -> None:
    (deleted,) = (image for image in pictures(store.catalog).values() if image.deleted_at)
    let_go = store.catalog.images_in_any_state_at([0])[0].image_id
    store.catalog.delete(let_go, 0.0)
    take_snapshot(store.folder, tmp_path / "copy")
    later = NOW + 1e6
    restore_snapshot(tmp_path / "copy", tmp_path / "restored", now=lambda: later)
    with closing(Catalog(tmp_path / "restored" / "catalog.sqlite")) as catalog:
        assert not is_there(catalog.restore(let_go, kept_since=later))
        assert is_there(catalog.restore(deleted.image_id, kept_since=later))


def pictures(catalog: Catalog) -> dict[str, Image]:
    return {image.image_id: image for _, image in catalog.erasures.not_erased(0, 1000)}


def compare(copy: Store, original: Store) -> None:
    """Everything that the copy knows is as it is in the original: rows, records, bytes."""
    there = pictures(original.catalog)
    for image_id, image in pictures(copy.catalog).items():
        assert there[image_id] == image
        path = copy.originals.path(image_id, image.extension)
        assert path.read_bytes() == original.originals.path(image_id, image.extension).read_bytes()
        if image.slot is not None:
            assert (
                copy.originals.thumbnail(image_id).read_bytes() == original.originals.thumbnail(image_id).read_bytes()
            )
    slots = range(copy.catalog.num_slots())
    captions = range(copy.catalog.num_caption_slots())
    assert copy.catalog.captions_at(captions) == original.catalog.captions_at(captions)
    with closing(copy.slab()) as mine, closing(original.slab()) as theirs:
        for slot in slots:
            mine.check(slot)
        found, expected = mine.read(slots), theirs.read(slots)
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array)
    assert copy.catalog.collection().id != original.catalog.collection().id


@pytest.mark.parametrize("name", ["copy", "copy.tar"])
def test_a_restored_snapshot_is_the_store_again(store: Store, tmp_path: Path, name: str) -> None:
    content = take_snapshot(store.folder, tmp_path / name)
    assert content == SnapshotContent(pictures=NUM - 2, deleted=1, records=NUM - 1, missing=0)
    counts = restore_snapshot(tmp_path / name, tmp_path / "restored", now=lambda: NOW)
    assert sum(counts.values()) == NUM - 1
    assert counts["deleted"] == 1
    copy = Store(tmp_path / "restored")
    assert pictures(copy.catalog) == pictures(store.catalog)
    compare(copy, store)
    assert [image.is_erased for image in copy.catalog.images_in_any_state_at(range(NUM - 1))].count(True) == 1
    copy.drain()
    assert copy.catalog.counts() == {"ready": NUM - 2, "queued": 0, "failed": 0, "deleted": 1}
    shown = next(iter(pictures(copy.catalog).values()))
    assert copy.catalog.restore(shown.image_id, 0.0) == shown
    copy.catalog.close()


def test_a_snapshot_taken_while_pictures_come_go_and_change_holds_one_moment(store: Store, tmp_path: Path) -> None:
    over = threading.Event()
    seen: list[str] = []

    def write() -> None:
        other = Store(store.folder)
        with other.worker() as (worker, _):
            for seed in range(100, 10_000):
                image_id = other.accept(encoded(noise(seed), "PNG"), captions=[COLOURS[seed % 8]])
                worker.run_once()
                seen.append(image_id)
                if seed % 3 == 0:
                    other.catalog.delete(seen[-3], NOW)
                if seed % 5 == 0:
                    other.catalog.change(seen[-1], PictureChange(captions=["changed", "twice"]))
                if over.is_set():
                    break
        other.catalog.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(4):
            name = tmp_path / (f"copy-{number}" if number % 2 else f"copy-{number}.tar")
            before = len(seen)
            while len(seen) < before + 2:  # the writer is at it
                assert writer.is_alive()
                over.wait(0.01)
            content = take_snapshot(store.folder, name)
            assert content.missing == 0
            assert content.pictures + content.deleted >= NUM - 1 + before
    finally:
        over.set()
        writer.join()
    for number in range(4):
        name = tmp_path / (f"copy-{number}" if number % 2 else f"copy-{number}.tar")
        restore_snapshot(name, tmp_path / f"restored-{number}")
        copy = Store(tmp_path / f"restored-{number}")
        with closing(copy.slab()) as mine, closing(store.slab()) as theirs:
            for image in pictures(copy.catalog).values():
                path = copy.originals.path(image.image_id, image.extension)
                assert path.read_bytes() == store.originals.path(image.image_id, image.extension).read_bytes()
                if image.slot is not None:
                    mine.check(image.slot)
                    record = mine.read([image.slot])
                    for field, array in theirs.read([image.slot]).items():
                        np.testing.assert_array_equal(record[field], array)
        copy.drain()
        assert copy.catalog.counts()["queued"] == 0
        assert copy.catalog.failures.page() == []
        copy.catalog.close()


@pytest.mark.parametrize("name", ["copy", "copy.tar"])
def test_records_that_the_catalog_does_not_count_yet_are_left_out(store: Store, tmp_path: Path, name: str) -> None:
    records = Path("regions") / "records.bin"
    counted = (store.folder / records).read_bytes()
    with (store.folder / records).open("ab") as file:
        file.write(counted[: len(counted) // 2])
    with closing(store.slab()) as slab:
        assert len(counted) == (NUM - 1) * slab.dtype.itemsize
    take_snapshot(store.folder, tmp_path / name)
    if name == "copy":
        copied = (tmp_path / name / records).read_bytes()
    else:
        with tarfile.open(tmp_path / name) as archive:
            (member,) = [one for one in archive if one.name == records.as_posix()]
            stored = archive.extractfile(member)
            assert stored is not None
            copied = stored.read()
    assert copied == counted


def test_nothing_is_erased_under_a_snapshot(store: Store, tmp_path: Path) -> None:
    young = store.accept(encoded(noise(50), "PNG"))
    store.catalog.delete(young, NOW - 100)

    def erase() -> None:
        Erasure(store.catalog, store.originals, FoundRegions(store.folder), 50.0, Clocks(lambda: NOW)).advance()

    tried = list[bool]()

    def erase_once() -> None:
        if not tried:
            erase()
        tried.append(True)

    take_snapshot(store.folder, tmp_path / "copy", each=erase_once)
    assert store.originals.path(young, "png").is_file()
    assert (tmp_path / "copy" / store.originals.path(young, "png").relative_to(store.folder)).is_file()
    erase()
    assert not store.originals.path(young, "png").exists()


def test_a_snapshot_takes_no_room_for_pictures_where_it_can_link(store: Store, tmp_path: Path) -> None:
    take_snapshot(store.folder, tmp_path / "copy")
    (image, *_) = pictures(store.catalog).values()
    original = store.originals.path(image.image_id, image.extension)
    assert original.samefile(tmp_path / "copy" / original.relative_to(store.folder))


@pytest.mark.parametrize("place", ["taken", "data/inside"])
def test_a_place_that_cannot_take_a_snapshot_is_refused(store: Store, tmp_path: Path, place: str) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_text("mine")
    with pytest.raises(UserError, match="name another place"):
        take_snapshot(store.folder, tmp_path / place)
    assert (tmp_path / "taken" / "file").read_text() == "mine"
    with pytest.raises(UserError, match="no catalog"):
        take_snapshot(tmp_path / "taken", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("out", ["data", "other"])
def test_a_data_directory_is_told_as_one_and_nobody_is_advised_to_remove_it(
    store: Store, tmp_path: Path, out: str
) -> None:
    place = tmp_path / out
    if out == "other":
        DataDir(place).views.mkdir(parents=True)
        Catalog(DataDir(place).catalog).close()
    else:
        lock_data_dir(store.folder).close()
    with pytest.raises(UserError, match=f"{out} is a data directory: name it with --data-dir") as refused:
        take_snapshot(store.folder, place)
    assert "remove" not in str(refused.value)


def test_what_a_killed_snapshot_left_is_removed_by_the_next(store: Store, tmp_path: Path) -> None:
    left, in_use, half = (tmp_path / name for name in (f"{SCRATCH}left", f"{SCRATCH}in-use", "half"))
    for folder in (left, in_use, half):
        folder.mkdir()
        (folder / "catalog.sqlite").write_text("a caption that was erased since")
    with locked_folder(in_use):
        take_snapshot(store.folder, tmp_path / "copy.tar")
    assert {path.name for path in tmp_path.iterdir()} == {"data", "copy.tar", in_use.name, "half"}
    with pytest.raises(UserError, match="half may be a snapshot that did not come to its end, or a data directory"):
        take_snapshot(store.folder, half)


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("copy.tar.gz", r"name .*copy\.tar, not copy\.tar\.gz"),
        ("copy.ZIP", r"name .*copy\.tar, not copy\.ZIP"),
        ("gone/copy", "there is no folder"),
    ],
)
def test_a_name_that_means_something_else_is_refused(store: Store, tmp_path: Path, place: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        take_snapshot(store.folder, tmp_path / place)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize("name", ["copy", "copy.tar"])
def test_a_snapshot_is_closed_to_other_users(store: Store, tmp_path: Path, name: str) -> None:
    take_snapshot(store.folder, tmp_path / name)
    restore_snapshot(tmp_path / name, tmp_path / "restored")
    for path in (tmp_path / name, tmp_path / "restored", store.folder):
        assert path.stat().st_mode & stat.S_IRWXO == 0


def test_a_disk_that_is_full_keeps_no_part_of_an_archive(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tarfile.TarFile, "addfile", full)
    monkeypatch.setattr(tarfile.TarFile, "close", full)  # which writes the archive's end
    with pytest.raises(OSError, match="No space left"):
        take_snapshot(store.folder, tmp_path / "copy.tar")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_only_what_went_away_of_the_data_directory_is_said_to_have(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backups = tmp_path / "backups"
    backups.mkdir()
    with monkeypatch.context() as patched:
        patched.setattr(os, "sync", lambda: backups.rename(tmp_path / "unmounted"))  # before the archive has its name
        with pytest.raises(FileNotFoundError, match=r"copy\.tar\.partial"):
            take_snapshot(store.folder, backups / "copy.tar")
    (store.folder / "regions" / "records.bin").unlink()
    with pytest.raises(UserError, match=r"records\.bin went away meanwhile"):
        take_snapshot(store.folder, tmp_path / "copy")


def test_a_damaged_catalog_is_named(store: Store, tmp_path: Path) -> None:
    store.catalog.close()
    for file in store.folder.glob("catalog.sqlite*"):
        file.unlink()
    (store.folder / "catalog.sqlite").write_bytes(b"no database" * 1000)
    with pytest.raises(DamagedCatalog, match="is damaged"):
        take_snapshot(store.folder, tmp_path / "copy")


@pytest.mark.parametrize("name", ["copy", "copy.tar"])
def test_a_snapshot_that_fails_leaves_nothing(store: Store, tmp_path: Path, name: str) -> None:
    def fail() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        take_snapshot(store.folder, tmp_path / name, each=fail)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    (tmp_path / name).mkdir()
    if name == "copy":  # a folder that was there stays, as empty as it was
        with pytest.raises(KeyboardInterrupt):
            take_snapshot(store.folder, tmp_path / name, each=fail)
        assert list((tmp_path / name).iterdir()) == []


def test_a_folder_that_is_there_is_all_that_a_snapshot_writes_to(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounted = tmp_path / "beside nothing that may be written" / "backup"
    mounted.mkdir(parents=True)
    made, make = list[Path](), Path.mkdir

    def note(folder: Path, *options: Any, **named: Any) -> None:
        if folder.name.startswith(SCRATCH):
            made.append(folder)
        make(folder, *options, **named)

    monkeypatch.setattr(Path, "mkdir", note)
    content = take_snapshot(store.folder, mounted)
    assert [folder.parent for folder in made] == [mounted]
    assert not list(mounted.glob(".*"))
    assert sum(restore_snapshot(mounted, tmp_path / "restored").values()) == content.pictures + content.deleted


def test_an_original_that_is_missing_is_counted_and_the_rest_copied(store: Store, tmp_path: Path) -> None:
    waiting = store.catalog.queue.waiting(1)[0]
    store.originals.path(waiting.image_id, "png").unlink()
    assert take_snapshot(store.folder, tmp_path / "copy").missing == 1
    assert sum(restore_snapshot(tmp_path / "copy", tmp_path / "restored").values()) == NUM - 1


def test_a_snapshot_of_a_store_without_regions_is_one(tmp_path: Path) -> None:
    empty = Store(tmp_path / "data")
    empty.accept(encoded(noise(1), "PNG"))
    take_snapshot(empty.folder, tmp_path / "copy.tar")
    empty.catalog.close()
    assert sum(restore_snapshot(tmp_path / "copy.tar", tmp_path / "restored").values()) == 1
    copy = Store(tmp_path / "restored")
    copy.drain(FakeExtractor())
    assert copy.catalog.counts()["ready"] == 1
    copy.catalog.close()
    shutil.rmtree(tmp_path / "restored")


def test_a_data_directory_of_features_alone_is_copied_and_made_again(tmp_path: Path) -> None:
    take_in(theirs(tmp_path), tmp_path / "data")
    assert not (tmp_path / "data" / "originals").exists()
    assert take_snapshot(tmp_path / "data", tmp_path / "copy").pictures == 5
    assert restore_snapshot(tmp_path / "copy", tmp_path / "restored")["ready"] == 5
    with closing(Catalog(tmp_path / "restored" / "catalog.sqlite")) as catalog:
        assert catalog.num_slots() == 5


def test_folders_of_any_name_hold_a_snapshot_and_what_is_made_of_it(
    regard: Regard, store: Store, tmp_path: Path
) -> None:
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/K\xfche")
    for made, arguments in ((odd, ["--data-dir", store.folder]), (f"{odd}2", [])):
        command = ["snapshot", odd] if arguments else ["restore", odd, made]
        status, said, _ = regard(*command, *arguments)
        assert (status, Path(made).is_dir()) == (0, True)
        assert "K\N{REPLACEMENT CHARACTER}he" in said


def test_a_hyphen_is_no_name_of_a_snapshot(
    regard: Regard, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    status, _, noted = regard("snapshot", "-", "--data-dir", store.folder)
    assert (status, (tmp_path / "-").exists()) == (2, False)
    assert "not written to standard output" in noted
