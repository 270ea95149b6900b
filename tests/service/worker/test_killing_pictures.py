"""A picture that ends the worker is set aside in the end, and no other is with it."""

import os
import signal
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import PIL.Image
import pytest
import torch

from models.extractors.base import Detections
from service.storage.regions.records import RecordLayout
from service.worker.detection import MOST_STARTS
from tests.support.fakes import FakeExtractor, FakeMatcher, WideExtractor, WideMatcher
from tests.support.forked import run_forked
from tests.support.pictures import encoded
from tests.support.worker_store import Store, noise

RED = PIL.Image.new("RGB", (20, 20), "red")


def kill_at_red(pictures: Sequence[PIL.Image.Image]) -> None:
    """A red picture kills the process, as a want of memory would."""
    if any(picture.getpixel((0, 0)) == (255, 0, 0) for picture in pictures):
        os.kill(os.getpid(), signal.SIGKILL)


class Deadly(FakeExtractor):
    def extract(self, pictures: Sequence[PIL.Image.Image]) -> Detections:
        kill_at_red(pictures)
        return super().extract(pictures)


class DeadlyWide(WideExtractor):
    def extract(self, pictures: Sequence[PIL.Image.Image]) -> Detections:
        kill_at_red(pictures)
        return super().extract(pictures)


def work(folder: Path, detector: type[FakeExtractor], matcher: type[FakeMatcher]) -> None:
    """Work until nothing is left to do."""
    Store(folder).drain(detector(), [matcher()])


@pytest.mark.slow
def test_a_picture_that_kills_the_worker_becomes_a_failure_and_costs_no_other(store: Store) -> None:
    pictures = {store.accept(encoded(noise(seed), "PNG")): noise(seed) for seed in range(2)}
    deadly = store.accept(encoded(RED, "PNG"))
    pictures |= {store.accept(encoded(noise(seed), "PNG")): noise(seed) for seed in range(2, 5)}
    assert run_workers(store, MOST_STARTS + 1, Deadly, FakeMatcher) == [-9] * MOST_STARTS + [0]
    check_failure(store, deadly)
    store.check(pictures)


def run_workers(store: Store, times: int, detector: type[FakeExtractor], matcher: type[FakeMatcher]) -> list[int]:
    """Start a worker again and again, as a supervisor does; how each ended."""
    return [run_forked(work, store.folder, detector, matcher) for _ in range(times)]


def died_with(store: Store, image_id: str, times: int) -> None:
    """The traces of workers that a picture crashed, one after the other."""
    for _ in range(times):
        store.catalog.starts.begin([image_id])


def check_failure(store: Store, deadly: str) -> None:
    """The picture alone is listed, with the reason that it ended workers."""
    (failure,) = store.catalog.failures.page()
    assert (failure.image_id, failure.attempts) == (deadly, MOST_STARTS)
    assert "ended the worker 5 times" in failure.reason


def taken_in(store: Store) -> str:
    """Five pictures, taken in by a detector that all of them agree with; the id of the one in the middle, a red one."""
    ids = [store.accept(encoded(picture, "PNG")) for picture in (noise(0), noise(1), RED, noise(2), noise(3))]
    store.drain()
    return ids[2]


def blank_records(store: Store, extractor: FakeExtractor, folder: str) -> list[int]:
    """Slots whose records are right, and hold no region."""
    with closing(RecordLayout.of(extractor).open(store.folder / folder, write=False)) as slab:
        for slot in range(5):
            slab.check(slot)
        return [slot for slot in range(5) if not slab.read([slot])["mask"].any()]


@pytest.mark.slow
def test_a_picture_that_kills_the_worker_while_another_detector_finds_all_anew(store: Store) -> None:
    deadly = taken_in(store)
    assert run_workers(store, 2, DeadlyWide, WideMatcher) == [-9, -9]  # with those beside it, then alone
    assert store.catalog.starts.of([deadly]) == {deadly: 2}
    died_with(store, deadly, MOST_STARTS - 2)
    store.drain(WideExtractor(), [WideMatcher()])
    check_failure(store, deadly)
    assert store.image(deadly).state == "ready"
    assert blank_records(store, WideExtractor(), "regions/wide-extractor") == [2]
    store.drain(WideExtractor(), [WideMatcher()])  # a later start does not try it again
    check_failure(store, deadly)
    store.accept(encoded(RED, "PNG"))  # sent again, it is
    store.drain(WideExtractor(), [WideMatcher()])
    assert store.catalog.failures.page() == []
    assert blank_records(store, WideExtractor(), "regions/wide-extractor") == []
    assert store.catalog.starts.of([store.image(deadly).image_id]) == {}


def test_starts_of_one_detector_say_nothing_of_another(store: Store) -> None:
    deadly = taken_in(store)
    store.drain(WideExtractor(), [WideMatcher()])
    died_with(store, deadly, MOST_STARTS)
    third = WideExtractor("third-extractor")
    store.drain(third, [WideMatcher("third", "third-matcher", "third-extractor")])
    assert store.catalog.failures.page() == []
    assert store.catalog.starts.of([deadly]) == {}
    assert blank_records(store, third, "regions/third-extractor") == []


@pytest.mark.slow
@pytest.mark.parametrize("lost", [5, 3])  # in the tail, where the red one comes first, or in the middle
def test_a_picture_that_kills_the_worker_while_its_damaged_record_is_made_again(store: Store, lost: int) -> None:
    deadly = taken_in(store)
    records = store.folder / "regions" / "records.bin"
    size = records.stat().st_size // 5
    content = records.read_bytes()
    records.write_bytes(content[: (5 - lost) * size] + bytes(lost * size))
    assert run_workers(store, 1, Deadly, FakeMatcher) == [-9]
    died_with(store, deadly, MOST_STARTS - 1)
    store.drain()
    check_failure(store, deadly)
    assert blank_records(store, FakeExtractor(), "regions") == [2]
    assert store.catalog.region_stores.blank_slots("fake-extractor") == [2]


class Failing(FakeExtractor):
    """Ends every detection with an exception that no picture is blamed for."""

    def extract(self, pictures: object) -> object:  # type: ignore[override]
        raise torch.AcceleratorError("gone")


def test_a_worker_that_ends_by_itself_blames_no_picture(store: Store) -> None:
    store.accept(encoded(noise(1), "PNG"))
    for _ in range(MOST_STARTS + 1):
        with store.worker(Failing()) as (worker, _), pytest.raises(torch.AcceleratorError):
            worker.run_once()
    assert [(one.starts, one.attempts) for one in store.catalog.queue.waiting(9)] == [(0, 0)]
