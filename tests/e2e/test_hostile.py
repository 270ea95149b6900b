"""A folder of files made to do harm beside good ones: the good ones go in, each bad one is told why not."""

import threading
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.hostile import BOUNDARY, MB, Upload, bad_files, body, endless_gif
from tests.e2e.pictures import painted
from tests.e2e.stack import Stack

GOOD = 20
ROOM = 300 * MB


def resident(pid: int) -> int:
    """Bytes of memory a process occupies."""
    pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * 4096


class Watch(threading.Thread):
    """The most memory that a process was seen to occupy."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.most, self.over = pid, 0, threading.Event()

    def run(self) -> None:
        """Look every few milliseconds."""
        while not self.over.wait(0.005):
            self.most = max(self.most, resident(self.pid))


def tree(folder: Path) -> set[Path]:
    """Every file below a folder."""
    return {path for path in folder.rglob("*") if not path.is_dir()}


@pytest.mark.timeout(900)
def test_bad_files_harm_nothing_and_good_ones_go_in(tmp_path: Path) -> None:
    good = [Upload(picture.name.encode(), picture.content) for picture in painted(GOOD - 1)]
    good.append(Upload(b"endless.gif", endless_gif(5000)))
    outside = tmp_path / "outside"
    outside.mkdir()
    bad = bad_files(str(outside))
    mixed = [upload for pair in zip(bad.values(), good, strict=False) for upload in pair] + good[len(bad) :]
    with Stack(tmp_path / "stack") as stack:
        stack.start("api", "worker")
        stack.wait_ready()
        before, start = tree(tmp_path) - tree(stack.folder), resident(stack.pid("api"))
        watch = Watch(stack.pid("api"))
        watch.start()
        answer = stack.client.post(
            "/ingest",
            content=body(mixed),
            headers={"Content-Type": f"multipart/form-data; boundary={BOUNDARY.decode()}"},
        )
        assert answer.status_code == 202, answer.text
        receipt = answer.json()
        status = stack.wait_job(receipt)
        watch.over.set()
        watch.join()
        assert watch.most - start < ROOM
        assert_everyone_was_told(receipt, status, bad)
        assert {image["state"] for image in stack.images()} == {"ready"}
        assert len(stack.images()) == GOOD
        assert_nothing_outside(stack, tmp_path, before)


def assert_everyone_was_told(receipt: dict[str, Any], status: dict[str, Any], bad: dict[str, Upload]) -> None:
    """Every bad file is rejected, or set aside, with a reason that fits no other kind of harm."""
    reasons = [(one["filename"], one["problem"]) for one in receipt["rejected"]]
    reasons += [(one["filename"], one["reason"]) for one in status["failures"]]
    assert len(reasons) == len(bad), reasons
    assert status["failed"] == len(status["failures"])
    assert status["done"] == GOOD
    assert all(len(problem) > 10 for _, problem in reasons), reasons
    told = dict(reasons)
    kinds = {told[name] for name in ("empty.jpg", "notes.jpg", "truncated.jpg", "huge.png", "zeros.jpg")}
    assert len(kinds) == 5


def assert_nothing_outside(stack: Stack, folder: Path, before: set[Path]) -> None:
    """Nothing was written but to the data folder (and the test's own logs)."""
    assert tree(folder) - tree(stack.folder) == before
    strays = tree(stack.folder) - tree(stack.data) - tree(stack.folder / "logs")
    assert strays == set()
    assert tree(stack.data / "incoming") == set()
