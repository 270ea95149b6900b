"""A worker without room on the disk waits, and goes on with what makes room."""

import errno
import threading
from pathlib import Path
from typing import Any

import pytest

from index.views.view import View
from index.views.view_writer import ViewWriter
from models.matching.lazy_matcher import LazyMatcher, MatcherHeader
from service.storage.disk import FreeSpace
from service.worker import view_builder
from tests.support.fakes import FakeMatcher
from tests.support.pictures import encoded
from tests.support.worker_store import NOW, Store, noise


class OnePause(threading.Event):
    """An event that nobody waits for."""

    def wait(self, timeout: float | None = None) -> bool:
        return False


def test_what_is_due_is_erased_and_the_worker_is_heard_from(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, gone = (store.accept(encoded(noise(seed), "PNG")) for seed in range(2))
    store.drain()
    store.catalog.delete(gone, NOW - 1e13)  # out of the grace of this store
    waiting = store.accept(encoded(noise(2), "PNG"))
    files = [store.originals.path(one, "png") for one in (kept, gone, waiting)]
    with store.worker() as (worker, _):
        monkeypatch.setattr(FreeSpace, "enough_to_work", lambda space: False)
        before = store.catalog.processes.last_heartbeat("worker")
        assert worker.run_within_space(OnePause())
        assert store.catalog.processes.last_heartbeat("worker") != before
        assert [file.exists() for file in files] == [True, False, True]
        assert store.catalog.counts()["queued"] == 1


def test_the_log_names_the_disk_and_the_room_that_is_missing(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    with store.worker(disk_reserve_bytes=1 << 60) as (worker, _):
        assert worker.run_within_space(OnePause())
    (line,) = [record.getMessage() for record in caplog.records if "the disk is full" in record.getMessage()]
    assert str(store.folder.resolve()) in line
    assert "REGARD_DISK_RESERVE_BYTES" in line


def test_a_view_that_is_asked_for_while_the_disk_is_full_is_made_once_there_is_room(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = FakeMatcher("later", "later-matcher")
    is_full = threading.Event()

    def opened(folder: Path, **layout: Any) -> ViewWriter:
        if is_full.is_set() and folder.name == later.digest:
            raise OSError(errno.ENOSPC, "No space left on device", str(folder))
        return ViewWriter(folder, **layout)

    monkeypatch.setattr(view_builder, "ViewWriter", opened)
    store.accept(encoded(noise(1), "PNG"))
    store.catalog.processes.request_view(later.digest, NOW)
    is_full.set()
    with store.worker(on_request=[LazyMatcher(MatcherHeader.of(later), lambda: later)]) as (worker, _):
        for _ in range(3):
            assert worker.run_within_space(OnePause())
        is_full.clear()
        while worker.run_within_space(OnePause()):
            pass
    assert View(store.folder / "views" / later.digest).snapshot().counts.images == 1
