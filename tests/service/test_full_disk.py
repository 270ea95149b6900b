"""A full disk: uploads are refused in words and leave nothing, the worker waits, nothing that was accepted is lost."""

import errno
import os
import re
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from index.catalog.catalog import Catalog
from index.catalog.changes.arrivals import Arrival
from index.catalog.database.connection import Database
from index.views.slab import Slab
from service.errors import DiskFull
from service.storage import disk as module
from service.storage.disk import FreeSpace, is_disk_full
from service.worker.maintenance import orphans
from service.worker.maintenance.orphans import Orphans
from service.worker.wakeups import Polling
from service.worker.worker import Worker
from tests.support.library import Library, two_coloured
from tests.support.pictures import encoded
from tests.support.web_app import Api, png, problem, served
from tests.support.worker_store import Store, noise

RESERVE = 2**21  # with a fourth of it a service can still be started


class Disk:
    """A disk with as much room as it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free = 10 * RESERVE
        monkeypatch.setattr(shutil, "disk_usage", lambda folder: self)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with served(Library(tmp_path), disk_reserve_bytes=RESERVE) as api:
        yield api


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path)
    yield made
    made.catalog.close()


LARGE = encoded(noise(0, 300, 300), "PNG")
PICTURE = {"images": ("a.png", png(two_coloured("red", "red")))}


def test_uploads_that_would_use_up_the_reserve_are_refused_before_they_are_received(api: Api, disk: Disk) -> None:
    api.library.catalog.processes.heartbeat("worker", api.services.clock())
    assert api.get("/readyz").json()["checks"]["disk"] == "ok"
    disk.free = RESERVE + 50  # less than the request brings
    for path, files in (("/ingest", PICTURE), ("/search/image", {"image": ("a.png", LARGE)})):
        answer = api.request("POST", path, files=files)
        assert "no room" in problem(answer, 507, "disk-full")["detail"]
        assert int(answer.headers["retry-after"]) >= 1
    assert api.get("/readyz").status_code == 200
    disk.free = RESERVE - 1
    assert "MB free" in problem(api.get("/readyz"), 503, "not-ready")["checks"]["disk"]
    (shown,) = re.findall(r"^regard_disk_free_bytes (\S+)$", api.get("/metrics").text, re.MULTILINE)
    assert float(shown) == RESERVE - 1
    assert api.text("red").status_code == 200
    stored = {"image_id": (None, api.library.add("red", two_coloured("red", "red"))), "target": (None, "images")}
    assert api.request("POST", "/search/image", files=stored).status_code == 200
    disk.free = 10 * RESERVE
    assert api.request("POST", "/ingest", files=PICTURE).status_code == 202


def full(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def full_catalog(*_: Any, **__: Any) -> None:
    fault = sqlite3.OperationalError("database or disk is full")
    fault.sqlite_errorcode = sqlite3.SQLITE_FULL
    raise fault


def failing_catalog(*_: Any, **__: Any) -> None:
    fault = sqlite3.OperationalError("disk I/O error")
    fault.sqlite_errorcode = sqlite3.SQLITE_IOERR_WRITE
    raise fault


@pytest.mark.parametrize(
    ("owner", "name", "fault", "refusal"),
    [
        (Path, "replace", full, (507, "disk-full")),
        (Catalog, "take_in", full_catalog, (507, "disk-full")),
        (Catalog, "take_in", failing_catalog, (503, "not-ready")),
    ],
)
def test_a_disk_that_fills_or_fails_while_an_upload_is_stored_leaves_nothing_of_it(
    api: Api, monkeypatch: pytest.MonkeyPatch, owner: type, name: str, fault: Any, refusal: tuple[int, str]
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, fault)
        problem(api.request("POST", "/ingest", files=PICTURE), *refusal)
    assert api.get("/images").json()["images"] == []
    Orphans(api.library.catalog, api.services.storage.originals).advance()
    assert [path for path in (api.library.folder / "originals").rglob("*") if path.is_file()] == []
    assert api.library.catalog.arrivals.open() == []
    assert api.request("POST", "/ingest", files=PICTURE).status_code == 202
    Orphans(api.library.catalog, api.services.storage.originals).advance()
    assert len([path for path in (api.library.folder / "originals").rglob("*") if path.is_file()]) == 1


@pytest.mark.parametrize(
    ("number", "passes"), [(errno.EACCES, False), (errno.EROFS, False), (errno.EIO, True), (errno.EMFILE, True)]
)
def test_a_disk_that_fails_otherwise_refuses_an_upload_in_words_and_says_when_to_send_again_where_that_helps(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int, passes: bool
) -> None:
    def fail(path: Path, *_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(Path, "mkdir", fail)
    answer = api.request("POST", "/ingest", files=PICTURE)
    assert os.strerror(number) in problem(answer, 503, "not-ready")["detail"]
    assert ("retry-after" in answer.headers) is passes
    assert str(api.services.storage.originals.incoming) not in answer.text
    assert f"the disk of the data directory failed: [Errno {number}]" in caplog.text


@pytest.mark.parametrize("name", ["incoming", "originals", "originals/ab", "originals/ab/cd", "regions"])
def test_readiness_tells_of_a_folder_that_may_not_be_used(api: Api, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (api.library.folder / "originals/ab/cd").mkdir(parents=True)
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, how: path != api.library.folder / name and access(path, how))
    told = problem(api.get("/readyz"), 503, "not-ready")["checks"]["disk"]
    assert told.startswith(f"{name} in the data directory cannot be ")
    assert "permissions forbid it" in told


def test_a_change_that_the_disk_has_no_room_for_is_refused_in_words(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    image_id = api.library.add("a", two_coloured("red", "red"))
    monkeypatch.setattr(Catalog, "change", full_catalog)
    problem(api.request("PATCH", f"/images/{image_id}", json={"captions": []}), 507, "disk-full")
    monkeypatch.undo()

    def broken(*_: Any) -> None:
        raise sqlite3.OperationalError("no such table: images")

    monkeypatch.setattr(Catalog, "change", broken)
    assert api.request("PATCH", f"/images/{image_id}", json={"captions": []}).status_code == 500


def test_a_change_that_another_process_is_in_the_way_of_may_be_tried_again(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image_id = api.library.add("a", two_coloured("red", "red"))
    held, impatient = (sqlite3.connect(tmp_path / "held", timeout=0, check_same_thread=False) for _ in range(2))
    with closing(held), closing(impatient):
        held.execute("BEGIN IMMEDIATE")
        monkeypatch.setattr(Catalog, "change", lambda *_: impatient.execute("BEGIN IMMEDIATE"))
        refused = api.request("PATCH", f"/images/{image_id}", json={"captions": ["red"]})
    assert "another process" in problem(refused, 503, "not-ready")["detail"]
    assert int(refused.headers["retry-after"]) > 0


def test_files_of_known_pictures_and_files_nobody_announced_are_left_alone(store: Store) -> None:
    known = store.accept(encoded(noise(1), "PNG"))
    stranger = store.originals.path("f" * 32, "png")
    stranger.parent.mkdir(parents=True)
    stranger.write_bytes(b"put there by hand")
    store.catalog.arrivals.announce([Arrival(known, "png"), Arrival("e" * 32, "png")])
    with store.originals.adding():
        Orphans(store.catalog, store.originals).advance()  # somebody may be storing the other one just now
        assert len(store.catalog.arrivals.open()) == 2
    Orphans(store.catalog, store.originals).advance()
    assert store.catalog.arrivals.open() == []
    assert store.originals.path(known, "png").is_file()
    assert stranger.is_file()


def test_orphans_are_looked_for_now_and_then(store: Store) -> None:
    passed = 0.0
    looking = Orphans(store.catalog, store.originals, lambda: passed)
    looking.advance()
    store.catalog.arrivals.announce([Arrival("e" * 32, "png")])
    looking.advance()
    assert len(store.catalog.arrivals.open()) == 1
    passed = orphans.ORPHANS_EVERY_S
    looking.advance()
    assert store.catalog.arrivals.open() == []


class Waiting(threading.Event):
    """An event nobody waits for; each wait is counted, and answered by `woken`."""

    def __init__(self, woken: Any) -> None:
        super().__init__()
        self.waits, self._woken = 0, woken

    def wait(self, timeout: float | None = None) -> bool:
        self.waits += 1
        self._woken(self)
        return self.is_set()


def work_until_done(store: Store, worker: Worker, woken: Any) -> Waiting:
    """Run the worker until its queue is empty; `woken` is called at each of its pauses."""
    stop = Waiting(woken)

    class UntilDone(Polling):
        def wait(self, stop: threading.Event) -> None:
            if not store.catalog.queue.waiting(1):
                stop.set()

    worker.run(UntilDone(store.catalog), stop)
    return stop


def test_the_worker_waits_for_room_and_goes_on(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = {store.accept(encoded(noise(seed), "PNG")): noise(seed) for seed in range(5)}
    append, thumbnails, failures = Slab.append, Path.replace, list[str]()

    def failing(kind: str, call: Any) -> Any:
        def maybe(*arguments: Any, **options: Any) -> Any:
            if len(failures) < 4:
                failures.append(kind)
                full()
            return call(*arguments, **options)

        return maybe

    with store.worker() as (worker, _):
        monkeypatch.setattr(Slab, "append", failing("slab", append))
        monkeypatch.setattr(Path, "replace", failing("file", thumbnails))
        stop = work_until_done(store, worker, lambda stop: None)
    monkeypatch.undo()
    assert len(failures) == 4
    assert 1 <= stop.waits <= 4
    assert store.catalog.failures.page() == []
    store.drain()
    store.check(pictures)


def test_the_worker_begins_nothing_on_a_disk_that_is_nearly_full(store: Store, disk: Disk) -> None:
    store.accept(encoded(noise(1), "PNG"))
    with store.worker(disk_reserve_bytes=RESERVE) as (worker, _):
        disk.free = RESERVE // module.WORKER_SHARE - 1

        def make_room(stop: Waiting) -> None:
            assert store.catalog.counts()["queued"] == 1
            if stop.waits == 3:
                disk.free = RESERVE

        assert work_until_done(store, worker, make_room).waits == 3
    assert store.catalog.counts()["ready"] == 1


def test_what_was_accepted_goes_on_where_no_more_is_accepted(disk: Disk, tmp_path: Path) -> None:
    space, disk.free = FreeSpace(tmp_path, RESERVE), RESERVE // 2
    with pytest.raises(DiskFull):
        space.require(0)
    assert space.enough_to_work()


def test_only_a_full_disk_is_taken_for_one(store: Store) -> None:
    assert is_disk_full(OSError(errno.ENOSPC, "no room"))
    assert not is_disk_full(OSError(errno.EIO, "broken"))
    assert not is_disk_full(ValueError("no room"))
    database = Database(store.folder / "other.sqlite")
    pages = database.connection().execute("PRAGMA page_count").fetchone()[0]
    database.connection().execute(f"PRAGMA max_page_count = {pages}")

    def fill() -> None:
        with database.writing() as db:
            db.execute("INSERT INTO heartbeats VALUES (?, 1)", ["x" * 100_000])

    with pytest.raises(sqlite3.OperationalError) as fault:
        fill()
    assert is_disk_full(fault.value)
    database.close()
