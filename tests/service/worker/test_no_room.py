"""A worker without room on the disk waits, and goes on with what makes room."""

import threading
from typing import Any

from tests.support.pictures import encoded
from tests.support.worker_store import NOW, Store, noise


class NoRoom:
    """A disk without room to work."""

    def enough_to_work(self) -> bool:
        return False


class OnePause(threading.Event):
    """An event that nobody waits for."""

    def wait(self, timeout: float | None = None) -> bool:
        return False


def test_what_is_due_is_erased_and_the_worker_is_heard_from(store: Store) -> None:
    kept, gone = (store.accept(encoded(noise(seed), "PNG")) for seed in range(2))
    store.drain()
    store.catalog.delete(gone, NOW - 1e13)  # out of the grace of this store
    waiting = store.accept(encoded(noise(2), "PNG"))
    files = [store.originals.path(one, "png") for one in (kept, gone, waiting)]
    with store.worker() as (worker, _):
        room: Any = NoRoom()
        worker._space = room
        before = store.catalog.last_heartbeat("worker")
        assert worker.run_within_space(OnePause())
        assert store.catalog.last_heartbeat("worker") != before
        assert [file.exists() for file in files] == [True, False, True]
        assert store.catalog.counts()["queued"] == 1
