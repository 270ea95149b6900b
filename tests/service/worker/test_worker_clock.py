"""A clock that is set costs no sign of life, and brings none."""

from concurrent.futures import Future
from itertools import pairwise
from typing import Any

import pytest

from index.catalog.ingestion.processes import WORKER, Processes
from service.clocks import Clocks
from service.media.decode_pool import DecodedPicture, DecodeFailed
from service.worker import process
from service.worker.heartbeat import BEAT_S
from tests.support.kill_points import DecodeHere
from tests.support.pictures import encoded
from tests.support.worker_store import NOW, Store, noise


def test_the_worker_goes_on_beating_when_the_clock_is_set_back(store: Store) -> None:
    passed, day = 0.0, NOW
    with store.worker(clocks=Clocks(lambda: day, lambda: passed)) as (worker, _):
        worker.run_once()
        assert store.catalog.processes.last_heartbeat(WORKER) == NOW
        day = NOW - 3600
        worker.run_once()
        assert store.catalog.processes.last_heartbeat(WORKER) == NOW  # not yet time
        passed = BEAT_S
        worker.run_once()
        assert store.catalog.processes.last_heartbeat(WORKER) == NOW - 3600


def test_a_batch_that_decodes_slowly_is_no_silence(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    passed, beats = 0.0, list[float]()

    class Slow(DecodeHere):
        """Takes twenty seconds a picture, and does not read it."""

        def submit(self, *given: Any, **named: Any) -> Future[DecodedPicture]:
            return Timeout()

    class Timeout(Future[DecodedPicture]):
        """Takes as long as decoding may take."""

        def done(self) -> bool:
            return True

        def result(self, timeout: float | None = None) -> DecodedPicture:
            nonlocal passed
            passed += 20
            raise DecodeFailed("Decoding took longer than 20 s.", final=False, timed_out=True)

    monkeypatch.setattr(process, "DecodePool", Slow)
    monkeypatch.setattr(Processes, "heartbeat", lambda *_: beats.append(passed))
    for seed in range(8):
        store.accept(encoded(noise(seed), "PNG"))
    with store.worker(batch=8, clocks=Clocks(timer=lambda: passed)) as (worker, _):
        for _ in range(3):
            worker.run_once()
    assert passed >= 160
    assert max(after - before for before, after in pairwise(beats)) <= 40
