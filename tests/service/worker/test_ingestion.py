"""While the detector has a batch, the one before is committed, and no picture suffers from it."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import PIL.Image
import pytest

from index.catalog.catalog import Catalog
from index.catalog.filters import Filter
from index.catalog.ingestion.detection_starts import DetectionStarts
from index.views.slab import DamagedRow, Slab
from models.extractors.base import Detections
from service.media.decode_pool import DecodedPicture
from service.worker import process
from service.worker.migration import Migration
from service.worker.view_builder import ViewBuilders
from tests.support.fakes import FakeExtractor
from tests.support.kill_points import DecodeHere
from tests.support.pictures import encoded
from tests.support.worker_store import COLOURS, NOW, Store, noise


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setattr(process, "DecodePool", DecodeHere)
    made = Store(tmp_path)
    yield made
    made.catalog.close()


class Held(FakeExtractor):
    """Goes on with a batch once it may; counts those that it has begun."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Semaphore(0)

    def extract(self, pictures: Sequence[PIL.Image.Image]) -> Detections:
        self.begun.release()
        assert self.may_end.acquire(timeout=30)
        return super().extract(pictures)


def accepted(store: Store, count: int) -> list[str]:
    return [store.accept(encoded(noise(seed), "PNG"), captions=[COLOURS[seed]]) for seed in range(count)]


def slots(store: Store, ids: Sequence[str]) -> list[int | None]:
    return [store.image(image_id).slot for image_id in ids]


def test_a_batch_is_committed_while_the_detector_has_the_next(store: Store) -> None:
    ids, detector = accepted(store, 6), Held()
    with store.worker(detector, batch=2) as (worker, _):
        worker.run_once()
        assert detector.begun.acquire(timeout=30)
        assert slots(store, ids) == [None] * 6
        detector.may_end.release()
        worker.run_once()
        assert detector.begun.acquire(timeout=30)  # the second batch, which it keeps
        assert slots(store, ids) == [0, 1, None, None, None, None]
        assert sorted(store.catalog.starts.of(ids)) == sorted(ids[2:4])
        detector.may_end.release(2)
        while worker.run_once():
            pass
    assert slots(store, ids) == [0, 1, 2, 3, 4, 5]
    assert store.catalog.starts.of(ids) == {}
    store.check({image_id: noise(seed) for seed, image_id in enumerate(ids)})


def test_a_worker_that_ends_leaves_the_batch_in_hand_to_the_next_without_suspicion(store: Store) -> None:
    ids, detector = accepted(store, 4), Held()
    with store.worker(detector, batch=2) as (worker, _):
        worker.run_once()
        assert sorted(store.catalog.starts.of(ids)) == sorted(ids[:2])
        detector.may_end.release()
    assert slots(store, ids) == [None] * 4
    assert store.catalog.starts.of(ids) == {}
    store.drain()
    store.check({image_id: noise(seed) for seed, image_id in enumerate(ids)})


def test_a_worker_that_ends_before_it_begins_leaves_a_suspicion_as_it_was(store: Store) -> None:
    [suspect], stop = accepted(store, 1), threading.Event()
    for _ in range(2):
        store.catalog.starts.begin([suspect])  # by workers that were killed
    stop.set()
    with store.worker() as (worker, _):
        worker.run_once(stop)
    assert store.catalog.starts.of([suspect]) == {suspect: 2}
    store.drain()
    assert (store.catalog.starts.of([suspect]), slots(store, [suspect])) == ({}, [0])


def test_a_worker_that_is_asked_to_stop_commits_the_batch_in_hand(store: Store) -> None:
    ids, stop = accepted(store, 4), threading.Event()

    class Stopping(FakeExtractor):
        def extract(self, pictures: Sequence[PIL.Image.Image]) -> Detections:
            stop.set()
            return super().extract(pictures)

    with store.worker(Stopping(), batch=2) as (worker, wakeups):
        worker.run(wakeups, stop)
    assert slots(store, ids)[:2] == [0, 1]
    assert store.catalog.starts.of(ids) == {}


def test_a_worker_that_is_asked_to_stop_begins_no_other_batch(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    ids, stop, batches = accepted(store, 6), threading.Event(), 0
    handed_over, submit = threading.Semaphore(0), ThreadPoolExecutor.submit

    def counted(pool: ThreadPoolExecutor, *job: Any) -> Future[Any]:
        future = submit(pool, *job)
        handed_over.release()
        return future

    class Stopping(FakeExtractor):
        def extract(self, pictures: Sequence[PIL.Image.Image]) -> Detections:
            nonlocal batches
            batches += 1
            for _ in range(2 if batches == 1 else 0):  # this batch, and the next one
                assert handed_over.acquire(timeout=30)
            stop.set()
            return super().extract(pictures)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", counted)
    with store.worker(Stopping(), batch=2) as (worker, wakeups):
        worker.run(wakeups, stop)
    assert batches == 1
    assert slots(store, ids) == [0, 1, None, None, None, None]
    assert store.catalog.starts.of(ids) == {}
    store.drain()
    store.check({image_id: noise(seed) for seed, image_id in enumerate(ids)})


def test_nothing_is_left_of_a_picture_that_is_deleted_while_the_detector_has_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = accepted(store, 4)
    settings = store.settings(2).model_copy(update={"delete_grace_s": 0.0})
    monkeypatch.setattr(store, "settings", lambda batch=2: settings)
    states: list[str] = []

    def deleting(_: Migration) -> bool:  # after a batch was begun, before pictures are erased
        if not states:
            states.append(store.image(ids[0]).state)
            store.catalog.delete(ids[0], NOW)
        return False

    monkeypatch.setattr(Migration, "advance", deleting)
    with store.worker(batch=2) as (worker, _):
        while worker.run_once():
            pass
    assert states == ["queued"]
    assert [path for path in store.folder.rglob(f"{ids[0]}*") if path.is_file()] == []
    assert store.catalog.image(ids[0]) is None
    assert slots(store, ids[1:]) == [1, 2, 3]
    assert store.catalog.texts.matches(COLOURS[0], 9, Filter()) == []


def test_a_picture_that_is_suspected_is_with_the_detector_alone(store: Store) -> None:
    ids = accepted(store, 5)
    store.catalog.starts.begin(ids[:2])  # by a worker that was killed
    together: list[list[str]] = []

    class Noting(FakeExtractor):
        def extract(self, pictures: Sequence[PIL.Image.Image]) -> Detections:
            together.append(sorted(store.catalog.starts.of(ids)))
            return super().extract(pictures)

    with store.worker(Noting(), batch=2) as (worker, _):
        while worker.run_once():
            pass
    suspects = sorted(ids[:2])
    assert slots(store, ids) == [3, 4, 0, 1, 2]
    assert together[2:] == [suspects, ids[1:2]]  # after new ones, and the first is committed before the second begins


def test_no_other_picture_begins_before_a_suspected_one_is_committed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    suspects = accepted(store, 2)
    store.catalog.starts.begin(suspects)  # by a worker that was killed
    begin, begun = DetectionStarts.begin, list[tuple[Sequence[str], list[int | None]]]()

    def noted(starts: DetectionStarts, image_ids: Sequence[str]) -> None:
        begun.append((image_ids, slots(store, suspects)))
        begin(starts, image_ids)

    with store.worker() as (worker, _):
        monkeypatch.setattr(DetectionStarts, "begin", noted)
        worker.run_once()
        fresh = store.accept(encoded(noise(10), "PNG"))
        worker.run_once()
    assert begun == [(suspects[:1], [None, None]), ([fresh], [0, None])]


class Noting(FakeExtractor):
    """Notes who would be blamed if a detection ended the worker."""

    def __init__(self, store: Store, ids: Sequence[str]) -> None:
        super().__init__()
        self._store, self._ids = store, ids
        self.blamed: list[set[str]] = []

    def extract(self, pictures: Sequence[PIL.Image.Image]) -> Detections:
        self.blamed.append(set(self._store.catalog.starts.of(self._ids)))
        return super().extract(pictures)


def test_a_record_is_made_again_while_the_detector_has_nothing_else(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = accepted(store, 4)
    store.drain()
    new = [store.accept(encoded(noise(seed), "PNG")) for seed in range(10, 14)]
    detector = Noting(store, [*old, *new])
    damaged: list[bool] = []

    def damage(_: Migration) -> bool:  # after a batch was begun, before the views get their rows
        damaged.append(True)
        return False

    catch_up = ViewBuilders.catch_up

    def meets_damage(views: ViewBuilders, catalog: Catalog, slab: Slab) -> bool:
        if len(damaged) == 1:
            damaged.append(True)
            raise DamagedRow("slot 1", 1)
        return catch_up(views, catalog, slab)

    monkeypatch.setattr(Migration, "advance", damage)
    monkeypatch.setattr(ViewBuilders, "catch_up", meets_damage)
    with store.worker(detector, batch=2) as (worker, _):
        while worker.run_once():
            pass
    assert {old[1]} in detector.blamed
    assert all(old[1] not in blamed or blamed == {old[1]} for blamed in detector.blamed)
    assert slots(store, new) == [4, 5, 6, 7]


def test_a_worker_that_fails_elsewhere_commits_the_batch_in_hand(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = accepted(store, 4)

    def broken(views: ViewBuilders, catalog: Catalog, slab: Slab) -> bool:
        raise RuntimeError("the view is broken")

    monkeypatch.setattr(ViewBuilders, "catch_up", broken)
    with store.worker(batch=2) as (worker, wakeups), pytest.raises(RuntimeError, match="the view is broken"):
        worker.run(wakeups, threading.Event())
    assert slots(store, ids) == [0, 1, None, None]
    assert store.catalog.starts.of(ids) == {}


class NeverDecoded(Future[DecodedPicture]):
    """A picture whose decoder hangs."""

    def result(self, timeout: float | None = None) -> DecodedPicture:
        raise AssertionError("the worker waits for a decoder while pictures could be committed")


def test_a_decoder_that_hangs_delays_no_batch_that_is_found(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = accepted(store, 4)
    submit = DecodeHere.submit

    def hanging(pool: DecodeHere, path: Path, *given: object, **options: object) -> Future[DecodedPicture]:
        return NeverDecoded() if path.stem == ids[2] else submit(pool, path, *given, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(DecodeHere, "submit", hanging)
    with store.worker(batch=2) as (worker, _):
        worker.run_once()
        with pytest.raises(AssertionError, match="waits for a decoder"):
            worker.run_once()
    assert slots(store, ids) == [0, 1, None, None]
