"""Originals are kept byte for byte under their own hash, wherever the name they came with points."""

import hashlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from index.files import temporary_beside
from service.storage import originals as module
from service.storage.originals import Originals, StagedFile, image_id_of
from tests.support.power_cut import Disk


def put(originals: Originals, content: bytes) -> StagedFile:
    sha256 = hashlib.sha256(content).hexdigest()
    path = originals.incoming / sha256
    path.write_bytes(content)
    return StagedFile(path, image_id_of(sha256), "jpg")


def test_stored_bytes_are_found_by_id_and_leave_nothing_behind(tmp_path: Path) -> None:
    originals = Originals(tmp_path)
    files = [put(originals, content) for content in (b"one", b"two", b"three")]
    originals.store(files)
    assert [originals.path(file.image_id, "jpg").read_bytes() for file in files] == [b"one", b"two", b"three"]
    assert list(originals.incoming.iterdir()) == []


def test_stored_bytes_are_there_after_a_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(tmp_path / "disk", monkeypatch)
    originals, contents = Originals(disk.folder), (b"one", b"two", b"three")
    files = [put(originals, content) for content in contents]
    assert len({originals.path(file.image_id, "jpg").parent for file in files}) == 3
    originals.store(files)
    left = Originals(disk.left(tmp_path / "left"), write=False)
    assert [left.path(file.image_id, "jpg").read_bytes() for file in files] == list(contents)


def test_a_folder_that_another_upload_made_is_there_after_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(tmp_path / "disk", monkeypatch)
    originals = Originals(disk.folder)
    for number, depth in enumerate((0, 1)):  # its own folder, or the one above it
        file = put(originals, b"%d" % number)
        place = originals.path(file.image_id, "jpg")
        place.parents[depth].mkdir(parents=True)  # by a process that did not come to its fsync
        originals.store([file])
        left = Originals(disk.left(tmp_path / f"left-{number}"), write=False)
        assert left.path(file.image_id, "jpg").read_bytes() == b"%d" % number


def test_names_of_folders_are_synced_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    originals, synced = Originals(tmp_path), list[Path]()
    monkeypatch.setattr(module, "sync_folder", synced.append)
    file = put(originals, b"one")
    folder = originals.path(file.image_id, "jpg").parent
    for folders in ([folder.parents[1], folder.parent, folder], [folder]):
        originals.store([put(originals, b"one")])
        assert synced == folders
        synced.clear()


def test_storing_the_same_bytes_again_changes_nothing(tmp_path: Path) -> None:
    originals = Originals(tmp_path)
    originals.store([put(originals, b"one")])
    again = put(Originals(tmp_path), b"one")
    originals.store([again])
    assert originals.path(again.image_id, "jpg").read_bytes() == b"one"


def test_a_damaged_original_is_not_shown_once_it_is_replaced(tmp_path: Path) -> None:
    originals = Originals(tmp_path)
    file = put(originals, b"one")
    path, shown = originals.path(file.image_id, "jpg"), originals.stripped(file.image_id, "jpg")
    for folder in (path.parent, shown.parent):
        folder.mkdir(parents=True)
    path.write_bytes(b"damaged")
    shown.hardlink_to(path)
    originals.store([file])
    assert path.read_bytes() == b"one"
    assert not shown.exists()
    shown.write_bytes(b"without metadata")
    originals.store([put(originals, b"one")])
    assert shown.exists()


def test_an_id_is_half_the_hash() -> None:
    assert image_id_of(hashlib.sha256(b"one").hexdigest()) == "7692c3ad3540bb803c020b3aee66cd88"


def test_thumbnails_and_originals_of_a_picture_lie_apart(tmp_path: Path) -> None:
    originals = Originals(tmp_path)
    assert originals.thumbnail("ab" * 16) == tmp_path / "thumbnails/ab/ab" / f"{'ab' * 16}.jpg"
    assert originals.path("ab" * 16, "png") == tmp_path / "originals/ab/ab" / f"{'ab' * 16}.png"


@pytest.mark.parametrize("made", [True, False])
def test_a_file_without_bytes_is_none_that_was_made(tmp_path: Path, made: bool) -> None:
    originals = Originals(tmp_path)
    thumbnail, shown = originals.thumbnail("ab" * 16), originals.stripped("ab" * 16, "jpg")
    for path in (thumbnail, shown):
        path.parent.mkdir(parents=True)
        path.write_bytes(b"picture" if made else b"")
    assert originals.find_thumbnail("ab" * 16) == (thumbnail if made else None)
    assert originals.find_stripped("ab" * 16, "tif") == (shown if made else None)
    assert originals.find_stripped("cd" * 16, "tif") is None


def test_what_killed_processes_left_half_written_goes_with_the_picture(tmp_path: Path) -> None:
    originals = Originals(tmp_path)
    mine, other = "ab" * 16, "abab" + "cd" * 14  # in one folder
    files: dict[str, list[Path]] = {mine: [], other: []}
    for image_id, own in files.items():
        derived = originals.derived_files(image_id, "png")
        own += [originals.path(image_id, "png"), *derived]
        for path in own:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"picture")
        for path in derived:
            with temporary_beside(path) as file:
                own.append(Path(file.name))
    originals.remove(mine, "png")
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(files[other])


def test_a_gap_between_those_who_add_files_is_waited_for(tmp_path: Path) -> None:
    originals, held, is_looked_for = Originals(tmp_path), threading.Event(), threading.Event()

    def add() -> None:
        with originals.adding():
            held.set()
            is_looked_for.wait()

    adding = threading.Thread(target=add)
    adding.start()
    held.wait()
    with originals.removing() as free:
        assert not free
    threading.Timer(0.05, is_looked_for.set).start()
    with originals.removing(patience_s=60) as free:
        assert free
    adding.join()


def test_who_waits_to_remove_files_comes_before_those_who_add_some_later(tmp_path: Path) -> None:
    over = threading.Event()

    def add_without_end() -> None:
        originals = Originals(tmp_path)
        while not over.is_set():
            with originals.adding():
                time.sleep(0.01)
                with originals.adding():  # as where a replica takes in what comes with regions
                    time.sleep(0.01)

    with ThreadPoolExecutor(4) as threads:
        adding = [threads.submit(add_without_end) for _ in range(4)]
        try:
            for _ in range(3):
                time.sleep(0.05)
                with Originals(tmp_path).removing(patience_s=20) as free:
                    assert free
        finally:
            over.set()
        assert [one.result() for one in adding] == [None] * 4


def test_who_waits_in_vain_keeps_nobody_from_adding(tmp_path: Path) -> None:
    originals = Originals(tmp_path)

    def add() -> str:
        with originals.adding():
            return "added"

    with originals.adding(), Originals(tmp_path).removing(patience_s=0.05) as free:
        assert not free
        with ThreadPoolExecutor(1) as threads:
            assert threads.submit(add).result(20) == "added"
