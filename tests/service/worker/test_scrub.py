"""Damage on the disk is seen while the service runs: records are made again, originals are told."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image
import pytest

from index.views.slab import Slab
from index.views.view import View
from service.clocks import Clocks
from service.storage.verification import find_damage
from service.worker.worker import Worker
from tests.support.fakes import CountingExtractor, FakeMatcher
from tests.support.pictures import encoded
from tests.support.worker_store import NOW, Store, noise

NUM = 5


@pytest.fixture
def pictures(store: Store) -> dict[str, PIL.Image.Image]:
    made = {store.accept(encoded(noise(seed), "PNG"), captions=["red"]): noise(seed) for seed in range(NUM)}
    store.drain()
    return dict(made)


def zero_record(store: Store, slot: int) -> None:
    """What a disk does that forgets a sector."""
    with closing(store.slab()) as slab, (store.folder / "regions" / "records.bin").open("r+b") as file:
        file.seek(slot * slab.dtype.itemsize)
        file.write(bytes(slab.dtype.itemsize))


def seen(folder: Path) -> dict[str, npt.NDArray[Any]]:
    """Everything that a view holds."""
    with closing(View(folder)) as view:
        snapshot = view.snapshot()
        captions = snapshot.read_captions(range(NUM))
        found = snapshot.read_images(range(NUM)) | {f"caption {number}": one for number, one in enumerate(captions)}
        embeddings = {name: snapshot.stores.embeddings(name, NUM).copy() for name in ("images", "captions")}
        return {name: np.array(array) for name, array in (found | embeddings).items()}


def slots_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The slots whose region records are checked from now on."""
    check, slots = Slab.check, list[int]()

    def noted(slab: Slab, row: int) -> None:
        if slab.folder.name == "regions":
            slots.append(row)
        check(slab, row)

    monkeypatch.setattr(Slab, "check", noted)
    return slots


@contextmanager
def scrubbing(store: Store, rate: float = 1.0, **more: Any) -> Iterator[tuple[Worker, Callable[[float], None]]]:
    """A worker whose scrub reads at a rate in bytes a second, and what lets it turn after so many seconds."""
    passed = 0.0

    def after(seconds: float) -> None:
        nonlocal passed
        passed += seconds
        worker.run_once()

    with store.worker(clocks=Clocks(timer=lambda: passed), scrub_rate=rate, **more) as (worker, _):
        while worker.run_once():
            pass
        yield worker, after


def test_a_record_in_the_middle_that_was_zeroed_is_made_again_while_the_worker_runs(
    store: Store, pictures: dict[str, PIL.Image.Image], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.worker.maintenance.scrub.MOST_SAVED_S", 1e9)
    before = store.slab().read(range(NUM))
    with scrubbing(store) as (_, after):
        zero_record(store, 1)
        assert "row 1 does not match its checksum; a worker makes it again" in next(find_damage(store.folder))
        after(1e8)
    mended = store.slab().read(range(NUM))
    for name, array in before.items():
        np.testing.assert_array_equal(mended[name], array)
    assert list(find_damage(store.folder)) == []
    assert store.catalog.failures.page() == []


@pytest.mark.parametrize("part", ["images", "image_embeddings", "captions", "caption_embeddings"])
def test_a_row_of_a_view_that_was_damaged_is_made_again_while_the_worker_runs(
    store: Store, pictures: dict[str, PIL.Image.Image], monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    monkeypatch.setattr("service.worker.maintenance.scrub.MOST_SAVED_S", 1e9)
    folder = store.folder / "views" / "fake-matcher"
    before = seen(folder)
    with scrubbing(store) as (worker, after):
        file = folder / part / ("words.bin" if part == "captions" else "records.bin")
        with file.open("r+b") as opened:  # in the middle: ends are looked at when a view is opened
            opened.seek(file.stat().st_size // NUM + 3)
            byte = opened.read(1)[0]
            opened.seek(-1, 1)
            opened.write(bytes([byte ^ 255]))
        assert len(list(find_damage(store.folder))) == 1
        after(1e8)
        while worker.run_once():
            pass
    assert list(find_damage(store.folder)) == []
    for name, array in seen(folder).items():
        np.testing.assert_array_equal(array, before[name])


def test_a_picture_that_came_back_while_settings_left_a_view_out_is_found_in_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.worker.maintenance.scrub.MOST_SAVED_S", 1e9)
    content, other = encoded(noise(1), "PNG"), FakeMatcher("other", "other-matcher")
    image_id = store.accept(content)
    store.drain()
    original = store.originals.path(image_id, "png")
    original.unlink()
    shutil.rmtree(store.folder / "regions")
    store.drain(matchers=[other])
    original.write_bytes(content)
    store.drain()
    with scrubbing(store, matchers=[other]) as (_, after):
        after(1e8)
    store.check({image_id: noise(1)}, other)


def test_a_view_row_and_its_record_that_are_both_damaged_are_made_again(
    store: Store, pictures: dict[str, PIL.Image.Image], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.worker.maintenance.scrub.MOST_SAVED_S", 1e9)
    folder = store.folder / "views" / "fake-matcher"
    before = seen(folder)
    file = folder / "images" / "records.bin"
    size = file.stat().st_size // NUM
    with closing(store.slab()) as slab:
        records = NUM * slab.dtype.itemsize
    with scrubbing(store) as (_, after):
        with file.open("r+b") as opened:
            opened.seek(size)
            opened.write(bytes(size))
        after(records)
        zero_record(store, 1)  # after the scrub has read the records
        after(1e8)
    assert list(find_damage(store.folder)) == []
    for name, array in seen(folder).items():
        np.testing.assert_array_equal(array, before[name])


@pytest.mark.parametrize("damaged", [[0], [1, 3], [1, 2, 4], [0, 1, 2, 3, 4], []])
def test_a_start_makes_damaged_records_again_and_leaves_sound_ones(
    store: Store, pictures: dict[str, PIL.Image.Image], damaged: list[int]
) -> None:
    store.accept(encoded(noise(NUM), "PNG"))
    for slot in damaged:
        zero_record(store, slot)
    before = store.catalog.processes.last_heartbeat("worker")
    detector = CountingExtractor()
    with store.worker(detector, batch=2):  # which has queued pictures left
        assert detector.looked_at == len(damaged)
        assert (store.catalog.processes.last_heartbeat("worker") != before) == bool(damaged)
    assert list(find_damage(store.folder)) == []
    store.drain()
    store.check(pictures | {store.accept(encoded(noise(NUM), "PNG")): noise(NUM)})


def test_a_record_that_cannot_be_made_again_is_listed_and_not_searched(
    store: Store, pictures: dict[str, PIL.Image.Image], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.worker.maintenance.scrub.MOST_SAVED_S", 1e9)
    image_id = list(pictures)[1]
    store.originals.path(image_id, "png").unlink()
    with scrubbing(store) as (_, after):
        zero_record(store, 1)
        after(1e8)
    (failure,) = store.catalog.failures.page()
    assert (failure.image_id, "damaged on the disk" in failure.reason) == (image_id, True)
    assert store.catalog.region_stores.blank_slots("fake-extractor") == [1]


def test_a_view_is_not_built_from_a_damaged_record(store: Store, pictures: dict[str, PIL.Image.Image]) -> None:
    other = FakeMatcher("other", "other-digest")
    with store.worker(matchers=[FakeMatcher(), other]) as (worker, _):
        zero_record(store, 2)
        while worker.run_once():
            pass
    store.check({image_id: noise(seed) for seed, image_id in enumerate(pictures)}, other)


def test_it_reads_no_more_than_its_rate_and_goes_round(
    store: Store, pictures: dict[str, PIL.Image.Image], monkeypatch: pytest.MonkeyPatch
) -> None:
    with scrubbing(store) as (_, after):
        size = store.slab().dtype.itemsize
        read = slots_read(monkeypatch)
        after(0.0)
        assert read == []
        after(1.0)
        assert read == [0]
        after(size - 2)  # still owed
        assert read == [0]
        for _ in range(NUM + 60):
            after(5.0)
        assert len(read) <= 2


def test_at_a_rate_of_zero_nothing_is_read(store: Store, pictures: dict[str, PIL.Image.Image]) -> None:
    with scrubbing(store, rate=0.0) as (_, after):
        zero_record(store, 2)
        after(1e8)
    assert any("row 2 " in damage for damage in find_damage(store.folder))


def test_after_an_hour_in_which_it_read_nothing_it_does_not_catch_up(
    store: Store, pictures: dict[str, PIL.Image.Image], monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(store.slab()) as slab:
        rate = slab.dtype.itemsize * 0.3
    with scrubbing(store, rate) as (_, after):
        read = slots_read(monkeypatch)
        after(3600.0)
    assert read == [0, 1]  # what five seconds allow, up to the end of a record


@pytest.mark.parametrize("harm", ["changed", "gone"])
def test_a_damaged_original_is_told_once_until_it_is_sound_again(
    store: Store,
    pictures: dict[str, PIL.Image.Image],
    harm: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("service.worker.maintenance.scrub.MOST_SAVED_S", 1e9)
    path = store.originals.path(list(pictures)[3], "png")
    whole = path.read_bytes()

    def do_harm() -> None:
        if harm == "gone":
            path.unlink()
        else:
            path.write_bytes(whole[:20] + bytes([whole[20] ^ 1]) + whole[21:])

    do_harm()
    words = "No such file" if harm == "gone" else "not the bytes that were taken in"
    (damage,) = find_damage(store.folder)
    assert words in damage
    assert str(path) in damage
    with scrubbing(store) as (_, after):
        after(1e8)
        after(1e8)
        assert caplog.text.count(words) == 1
        path.write_bytes(whole)
        after(1e8)
        do_harm()
        after(1e8)
        assert caplog.text.count(words) == 2


def test_damage_of_a_view_is_found(store: Store, pictures: dict[str, PIL.Image.Image]) -> None:
    path = store.folder / "views" / "fake-matcher" / "captions" / "words.bin"
    content = bytearray(path.read_bytes())
    content[0] ^= 255
    path.write_bytes(content)
    (damage,) = find_damage(store.folder)
    assert "the words of row 0 do not match" in damage
    assert "the view is built anew" in damage


def test_missing_records_are_one_line(store: Store, pictures: dict[str, PIL.Image.Image]) -> None:
    (store.folder / "regions" / "header.json").unlink()
    (damage,) = find_damage(store.folder)
    assert f"{NUM} region records are missing" in damage


def test_a_deleted_picture_is_verified_too(store: Store, pictures: dict[str, PIL.Image.Image]) -> None:
    image_id = next(iter(pictures))
    store.catalog.delete(image_id, NOW)
    store.originals.path(image_id, "png").unlink()
    assert len(list(find_damage(store.folder))) == 1
