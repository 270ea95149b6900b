"""A disk that really is full: what was accepted before it was stays, and all goes on once there is room."""

import contextlib
import errno
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from service.media import decode_pool
from service.worker.worker import Worker
from tests.support.pictures import encoded
from tests.support.web_app import problem
from tests.support.whole_service import WholeService, drawn_ledger, whole_service, wrong_on_disk
from tests.support.worker_store import noise

MB = 2**20
SMALL, LARGE = 6 * MB, 64 * MB
MOST_UPLOADS = 100


class SmallDisk:
    """A disk of a few megabytes: one of its own where this user may mount it, otherwise one of which it is told so.

    Room on the disk that others write to, too, would be theirs to take.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.size = folder, SMALL
        made = ["mount", "-t", "tmpfs", "-o", f"size={SMALL}", "tmpfs", str(folder)]
        self.is_mounted = subprocess.run(made, capture_output=True, check=False).returncode == 0
        if not self.is_mounted:
            monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=self.size - self._used()))

    def _used(self) -> int:
        """Bytes of all that lies on it, while others may remove some."""
        found = 0
        for path in self.folder.rglob("*"):
            with contextlib.suppress(FileNotFoundError):
                found += path.lstat().st_blocks * 512
        return found

    def grow(self) -> None:
        """Make room."""
        self.size = LARGE
        if self.is_mounted:
            subprocess.run(["mount", "-o", f"remount,size={LARGE}", str(self.folder)], check=True)

    def close(self) -> None:
        if self.is_mounted:
            subprocess.run(["umount", "-l", str(self.folder)], check=True)  # files of it may be mapped still


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallDisk]:
    made = SmallDisk(tmp_path, monkeypatch)
    yield made
    made.close()


def upload(service: WholeService, seed: int) -> int:
    """The status of the upload of a picture of some hundred kilobytes."""
    content = encoded(noise(seed, 300, 300), "PNG")
    return service.http.post("/ingest", files={"images": (f"{seed}.png", content)}).status_code


class Stopped(threading.Event):
    """Is waited for in vain, and tells how often."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses = 0

    def wait(self, timeout: float | None = None) -> bool:
        self.pauses += 1
        return False


def work_while_there_is_room(worker: Worker) -> int:
    """Let it work until it has nothing to do, or pauses for want of room; how often it paused."""
    stop = Stopped()
    while not stop.pauses and worker.run_within_space(stop):
        pass
    return stop.pauses


@pytest.mark.slow
def test_a_full_disk_costs_nothing_that_was_accepted(disk: SmallDisk) -> None:
    data = disk.folder / "data"
    with whole_service(data) as service:
        statuses: list[int] = []
        while len(statuses) < MOST_UPLOADS and (not statuses or statuses[-1] == 202):
            statuses.append(upload(service, len(statuses)))
            work_while_there_is_room(service.worker)
        assert statuses[-1] == 507
        assert len(statuses) > 3
        listed = service.http.get("/images").json()["images"]
        assert len(listed) == len(statuses) - 1
        for image in listed:
            assert service.http.get(image["url"]).status_code in (200, 507)  # the file to show may not be made yet
        asks: dict[str, dict[str, Any]] = {"/search/text": {"json": {"query": "red"}}, "/readyz": {}}
        for path, options in asks.items():
            asked = service.http.request("POST" if options else "GET", path, **options)
            assert asked.status_code in (200, 503), asked.text
        deletion = service.http.delete(f"/images/{listed[0]['image_id']}")
        assert deletion.status_code in (204, 507), deletion.text
    disk.grow()
    with whole_service(data) as service:
        assert work_while_there_is_room(service.worker) == 0
        assert upload(service, len(statuses) - 1) == 202  # the one that was refused
        service.work()
        there = service.http.get("/images").json()["images"]
        assert {image["state"] for image in there} == {"ready"}
        gone = deletion.status_code == 204
        assert len(there) == len(statuses) - gone
        assert {image["image_id"] for image in listed[gone:]} <= {image["image_id"] for image in there}
    assert wrong_on_disk(data) == []


def test_a_file_to_show_that_there_is_no_room_for_is_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (entry,) = drawn_ledger(1).entries
    with whole_service(tmp_path) as service:
        service.send("upload", [entry])

        def full(*paths: Path, **points: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patched:
            patched.setattr(decode_pool, "replacement_of", full)
            patched.setattr(Path, "hardlink_to", full)  # not even for another name of the original
            refused = service.http.get(f"/images/{entry.picture.image_id}")
        assert problem(refused, 507, "disk-full")
        assert service.http.get(f"/images/{entry.picture.image_id}").status_code == 200
