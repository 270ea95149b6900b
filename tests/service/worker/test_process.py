"""A worker as a process: what it refuses to start on, how it stops, and that being killed changes nothing."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import PIL.Image
import pytest

from index.lock import Locked
from models.extractors.base import Detections
from service.storage import data_dir_lock
from service.worker.detection import ENDED_WORKER
from service.worker.process import open_worker
from service.worker.redis_wakeups import RedisNotifier
from tests.support.fakes import FakeExtractor, FakeMatcher, WideExtractor, WideMatcher
from tests.support.pictures import encoded
from tests.support.processes import wait_until
from tests.support.redis_server import RedisServer
from tests.support.worker_store import COLOURS, NOW, Store, noise, view_is_whole


def test_a_model_of_another_extractor_is_refused_in_words(store: Store) -> None:
    stranger = FakeMatcher(name="stranger", extractor_digest="another")
    with (
        pytest.raises(ValueError, match="stranger was trained on features of the extractor another"),
        store.worker(matchers=[stranger]),
    ):
        pass


class Undetecting(FakeExtractor):
    """Known by its features alone."""

    accepts_pictures = False


def test_features_of_two_extractors_are_not_mixed(store: Store) -> None:
    store.accept(encoded(noise(1), "PNG"))
    store.drain()
    matcher = FakeMatcher(extractor_digest="another")
    with (
        pytest.raises(ValueError, match="found by the extractor fake-extractor"),
        store.worker(Undetecting("another"), [matcher]),
    ):
        pass


def test_a_collection_whose_pictures_were_all_deleted_takes_another_detector(store: Store) -> None:
    image_id = store.accept(encoded(noise(1), "PNG"))
    store.drain()
    store.catalog.delete(image_id, NOW)
    store.drain(WideExtractor(), [WideMatcher()])
    assert store.catalog.region_stores.num_records("wide-extractor") == 1


def test_there_is_one_worker_a_data_directory(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_dir_lock, "PATIENCE_S", 0.0)
    with store.worker(), pytest.raises(Locked), store.worker():
        pass
    with store.worker():
        pass


def test_what_dead_uploads_left_is_removed_at_the_start(store: Store) -> None:
    stray = store.originals.incoming / "stray"
    stray.mkdir()
    (stray / "0").write_bytes(b"half a picture")
    with store.worker():
        assert list(store.originals.incoming.iterdir()) == []


def test_the_worker_is_heard_from(store: Store) -> None:
    assert store.catalog.processes.last_heartbeat("worker") is None
    before = time.time()
    store.drain()
    heard = store.catalog.processes.last_heartbeat("worker")
    assert heard is not None
    assert heard >= before


class Stopping(FakeExtractor):
    """Asks the worker to stop while it is at work."""

    def __init__(self, stop: threading.Event) -> None:
        super().__init__()
        self._stop = stop

    def extract(self, pictures: Sequence[PIL.Image.Image]) -> Detections:
        self._stop.set()
        return super().extract(pictures)


def test_a_stop_lets_the_batch_in_hand_finish(store: Store) -> None:
    pictures = {store.accept(encoded(noise(seed), "PNG")): noise(seed) for seed in range(9)}
    stop = threading.Event()
    with store.worker(Stopping(stop)) as (worker, wakeups):
        worker.run(wakeups, stop)
    assert store.catalog.counts()["ready"] == 3
    store.drain()
    store.check(pictures)


@pytest.mark.slow
def test_a_worker_killed_at_any_moment_loses_and_repeats_nothing(store: Store) -> None:
    rng = random.Random(7)
    pictures: dict[str, PIL.Image.Image] = {}
    command = [sys.executable, "-m", "tests.support.fake_worker_process", str(store.folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdin is not None
        assert program.stdout is not None

        def start() -> int:
            assert program.stdin is not None
            assert program.stdout is not None
            print(file=program.stdin, flush=True)
            return int(program.stdout.readline())

        for _ in range(20):
            worker = start()
            for _ in range(rng.randrange(4)):
                seed = len(pictures)
                captions = [f"number {seed}", f"{COLOURS[seed % 8]} on {COLOURS[seed // 8 % 8]}"][: seed % 3]
                pictures[store.accept(encoded(noise(seed), "PNG"), captions=captions)] = noise(seed)
                time.sleep(rng.random() * 0.1)
            time.sleep(rng.random() * 0.3)
            os.kill(worker, signal.SIGKILL)
            assert int(program.stdout.readline()) == signal.SIGKILL
        began = time.time()
        worker = start()
        # The queue may be empty already: only a sign of this worker's own tells that it listens to signals by now.
        wait_until(lambda: (store.catalog.processes.last_heartbeat("worker") or 0.0) >= began)
        wait_until(lambda: store.catalog.counts()["queued"] == 0)
        # Where five of the kills found the same picture with the detector, it waits to be asked for again.
        for failure in store.catalog.failures.page():
            assert failure.reason == ENDED_WORKER
            assert store.catalog.queue.retry(failure.image_id, time.time()) is not None
        wait_until(lambda: store.catalog.counts()["queued"] == 0 and view_is_whole(store))
        os.kill(worker, signal.SIGTERM)
        assert int(program.stdout.readline()) == 0
        program.stdin.close()
    assert len(pictures) > 20
    assert store.catalog.counts() == {"ready": len(pictures), "queued": 0, "failed": 0, "deleted": 0}
    store.check(pictures)


@pytest.mark.slow
@pytest.mark.redis
def test_a_redis_that_comes_and_goes_loses_no_picture(store: Store, redis_server: RedisServer) -> None:
    notifier, stop = RedisNotifier(redis_server.url, store.catalog.collection()), threading.Event()
    pictures: dict[str, PIL.Image.Image] = {}

    def accept_two() -> None:
        for _ in range(2):
            seed = len(pictures)
            pictures[store.accept(encoded(noise(seed), "PNG"))] = noise(seed)
            notifier.wake()

    settings = store.settings().model_copy(update={"redis_url": redis_server.url})
    accept_two()
    opened = open_worker(settings, FakeExtractor(), [FakeMatcher()])
    with opened as (worker, wakeups), ThreadPoolExecutor(1) as threads:
        running = threads.submit(worker.run, wakeups, stop)
        troubles: list[Callable[[], None]] = [lambda: None, redis_server.kill, redis_server.start, redis_server.flush]
        for trouble in troubles:
            trouble()
            accept_two()
            wait_until(lambda: store.catalog.counts()["ready"] == len(pictures))
        stop.set()
        running.result()
    store.check(pictures)


@pytest.mark.slow
def test_a_worker_ends_with_the_process_that_started_it(store: Store) -> None:
    command = [sys.executable, "-m", "tests.support.fake_worker_process", str(store.folder), "--once"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        wait_until(lambda: store.catalog.processes.last_heartbeat("worker") is not None)
        process.stdin.close()  # as the kernel does for a parent that was killed
        process.wait()
    with store.worker():
        pass
