"""A clock that is set costs no sign of life, and brings none."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from service.worker.worker import BEAT_S, ROLE
from tests.support.worker_store import NOW, Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path)
    yield made
    made.catalog.close()


def test_the_worker_goes_on_beating_when_the_clock_is_set_back(store: Store) -> None:
    passed, day = 0.0, NOW
    with store.worker() as (worker, _):
        worker._timer = lambda: passed
        worker._clock = lambda: day
        worker.run_once()
        assert store.catalog.last_heartbeat(ROLE) == NOW
        day = NOW - 3600
        worker.run_once()
        assert store.catalog.last_heartbeat(ROLE) == NOW  # not yet time
        passed = BEAT_S
        worker.run_once()
        assert store.catalog.last_heartbeat(ROLE) == NOW - 3600
