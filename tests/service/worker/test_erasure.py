"""Deleted pictures are erased after their grace: files, captions and tags, whenever the worker is killed."""

import threading
from pathlib import Path
from typing import Any

import pytest

from index.catalog.catalog import Catalog
from service.clocks import Clocks
from service.storage.originals import Originals
from service.storage.regions.found_regions import FoundRegions
from service.worker.maintenance.erasure import BUSY_PAUSE_S, LOOK_EVERY_S, PATIENT_EVERY, Erasure
from tests.support.catalogs import is_there
from tests.support.pictures import encoded
from tests.support.worker_store import NOW, Store, noise

GRACE_S = 60.0


class Clock:
    """Shows what it is set to."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def erasure(store: Store, now: float, timer: Clock | None = None) -> Erasure:
    clocks = Clocks(Clock(now), timer or Clock(0.0))
    return Erasure(store.catalog, store.originals, FoundRegions(store.folder), GRACE_S, clocks)


def files_of(store: Store, image_id: str) -> list[Path]:
    return [path for path in store.folder.rglob(f"{image_id}*") if path.is_file()]


def test_nothing_is_left_of_a_picture_after_the_grace(store: Store) -> None:
    content = encoded(noise(1), "PNG")
    image_id = store.accept(content, captions=["red"])
    other = store.accept(encoded(noise(2), "PNG"), captions=["blue"])
    store.drain()
    assert len(files_of(store, image_id)) == 3
    store.catalog.delete(image_id, NOW)
    assert not erasure(store, NOW + GRACE_S).advance()
    assert len(files_of(store, image_id)) == 3
    assert erasure(store, NOW + GRACE_S + 1).advance()
    assert files_of(store, image_id) == []
    assert len(files_of(store, other)) == 3
    assert store.catalog.image(image_id) is None
    assert store.accept(content) == image_id
    store.drain()
    assert (store.image(image_id).captions, store.image(image_id).slot) == ((), 2)
    assert len(files_of(store, image_id)) == 3
    assert [image.image_id for image in store.catalog.list_images(None, 9)] == [other, image_id]


def test_nothing_is_left_of_what_was_seen_in_a_picture_that_never_came_to_its_turn(store: Store) -> None:
    image_id = store.accept(encoded(noise(1), "PNG"))
    FoundRegions(store.folder).put(image_id, b"regions that came with it")
    store.catalog.delete(image_id, NOW)
    assert erasure(store, NOW + GRACE_S + 1).advance()
    assert files_of(store, image_id) == []


def test_a_worker_erases_what_is_due_and_goes_on(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [store.accept(encoded(noise(seed), "PNG"), captions=["red"]) for seed in range(3)]
    store.drain()
    store.catalog.delete(ids[1], NOW)
    settings = store.settings().model_copy(update={"delete_grace_s": GRACE_S})
    monkeypatch.setattr(store, "settings", lambda batch=3: settings)
    store.drain()
    assert files_of(store, ids[1]) == []
    assert store.catalog.visible().tolist() == [True, False, True]


def test_it_does_not_look_again_at_once_when_there_was_nothing(store: Store) -> None:
    timer = Clock(0.0)
    image_id = store.accept(encoded(noise(1), "PNG"))
    looking = erasure(store, NOW + GRACE_S + 1, timer)
    assert not looking.advance()
    store.catalog.delete(image_id, NOW)
    assert not looking.advance()
    timer.now = LOOK_EVERY_S
    assert looking.advance()


@pytest.mark.parametrize("step", ["remove", "forget"])
def test_a_kill_between_the_steps_leaves_what_the_next_worker_ends(
    store: Store, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    image_id = store.accept(encoded(noise(1), "PNG"), captions=["red"])
    store.drain()
    store.catalog.delete(image_id, NOW)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    owner = Originals if step == "remove" else type(store.catalog.erasures)
    monkeypatch.setattr(owner, step, killed)
    with pytest.raises(KeyboardInterrupt):
        erasure(store, NOW + GRACE_S + 1).advance()
    monkeypatch.undo()
    assert store.catalog.image(image_id) is None
    assert not is_there(store.catalog.restore(image_id, kept_since=0.0))
    assert erasure(store, NOW + GRACE_S + 1).advance()
    assert files_of(store, image_id) == []
    assert store.catalog.erasures.being_erased(9) == []


def test_files_stored_for_the_same_picture_meanwhile_stay(store: Store) -> None:
    content = encoded(noise(1), "PNG")
    image_id = store.accept(content)
    store.drain()
    store.catalog.delete(image_id, NOW)
    stored, erased = threading.Event(), threading.Event()
    clerk = Catalog(store.folder / "catalog.sqlite")

    def upload() -> None:
        with Originals(store.folder).adding():
            stored.set()
            assert erased.wait(30)
            store.accept(content)

    uploading = threading.Thread(target=upload)
    uploading.start()
    assert stored.wait(30)
    assert erasure(store, NOW + GRACE_S + 1).advance()  # in the catalog alone
    assert len(files_of(store, image_id)) == 3
    erased.set()
    uploading.join()
    assert not erasure(store, NOW + GRACE_S + 1).advance()
    assert [image.image_id for image in clerk.list_images(None, 9)] == [image_id]
    assert store.originals.path(image_id, "png").read_bytes() == content
    clerk.close()


def test_the_detector_is_waited_for_once_while_a_snapshot_is_taken(store: Store) -> None:
    image_id = store.accept(encoded(noise(1), "PNG"))
    store.drain()
    store.catalog.delete(image_id, NOW)
    timer, ended = Clock(0.0), list[float]()
    erasing = erasure(store, NOW + GRACE_S + 1, timer)
    with store.originals.adding():
        for timer.now in (0.0, LOOK_EVERY_S, 2 * LOOK_EVERY_S):
            erasing.advance(lambda: ended.append(timer.now))
        assert len(files_of(store, image_id)) == 3
    timer.now = BUSY_PAUSE_S + LOOK_EVERY_S
    assert erasing.advance(lambda: ended.append(timer.now))
    assert files_of(store, image_id) == []
    assert ended == [0.0]


def test_uploads_wait_but_once_for_an_erasure_that_a_snapshot_holds_up(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    image_id = store.accept(encoded(noise(1), "PNG"))
    store.drain()
    store.catalog.delete(image_id, NOW)
    timer, patient, removing = Clock(0.0), list[float](), store.originals.removing

    def noted(patience_s: float) -> Any:
        patient.append(patience_s)
        return removing(0.0)

    monkeypatch.setattr(store.originals, "removing", noted)
    erasing = erasure(store, NOW + GRACE_S + 1, timer)
    with store.originals.adding():
        for timer.now in (BUSY_PAUSE_S * turn for turn in range(PATIENT_EVERY + 1)):
            erasing.advance()
    assert [turn for turn, patience_s in enumerate(patient) if patience_s] == [0, PATIENT_EVERY]
    timer.now += BUSY_PAUSE_S
    assert erasing.advance()
    assert files_of(store, image_id) == []


def test_the_regions_of_what_may_come_back_are_made_again_with_the_others(store: Store) -> None:
    pictures = {store.accept(encoded(noise(seed), "PNG")): noise(seed) for seed in range(3)}
    store.drain()
    deleted = list(pictures)[2]
    store.catalog.delete(deleted, NOW)
    with (store.folder / "regions" / "records.bin").open("r+b") as file:
        file.truncate(file.seek(0, 2) - 1)
    store.drain()
    assert is_there(store.catalog.restore(deleted, kept_since=NOW))
    store.check(pictures)
