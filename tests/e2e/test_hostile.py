"""A folder of files made to do harm beside good ones: the good ones go in, each bad one is told why not."""

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.hostile import BOUNDARY, MB, Upload, bad_files, bad_names, body, endless_gif
from tests.e2e.pictures import painted
from tests.e2e.stack import Stack, small_stack

GOOD = 20
KNOWN_BAD = {"empty.jpg", "notes.jpg", "truncated.jpg", "huge.png", "archive.zip", "zeros.jpg"}
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


@pytest.mark.timeout(2000)
def test_bad_files_harm_nothing_and_good_ones_go_in(tmp_path: Path) -> None:
    good = [Upload(picture.name.encode(), picture.content) for picture in painted(GOOD - 1)]
    good.append(Upload(b"endless.gif", endless_gif(5000)))
    outside = tmp_path / "outside"
    outside.mkdir()
    bad, names = list(bad_files().values()), bad_names(str(outside), good[0].content)
    mixed = [good[0]] + [upload for pair in zip([*bad, *names], good[1:], strict=False) for upload in pair]
    mixed += good[1 + len(bad) + len(names) :]
    with small_stack(tmp_path) as stack:
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
        assert_everyone_was_told(receipt, status, len(bad), len(names))
        states = Counter(image["state"] for image in stack.images())
        assert states == {"ready": GOOD, "failed": status["failed"]}
        assert_nothing_outside(stack, tmp_path, before)


def assert_everyone_was_told(receipt: dict[str, Any], status: dict[str, Any], num_bad: int, num_names: int) -> None:
    """Every bad file has a reason of its own; a bad name is refused, or no more than a label of a known picture."""
    reasons = [(one["filename"], one["problem"]) for one in receipt["rejected"]]
    reasons += [(one["filename"], one["reason"]) for one in status["failures"]]
    told = {problem for name, problem in reasons if name in KNOWN_BAD}
    assert len(told) == num_bad == len(KNOWN_BAD), reasons
    assert all(len(problem) > 10 for _, problem in reasons), reasons
    labels = sum(one["duplicate"] for one in receipt["accepted"])
    assert labels + len(reasons) - num_bad == num_names
    assert status["failed"] == len(status["failures"])


def assert_nothing_outside(stack: Stack, folder: Path, before: set[Path]) -> None:
    """Nothing was written but to the data folder (and the test's own logs)."""
    assert tree(folder) - tree(stack.folder) == before
    own = (stack.data, stack.folder / "logs")  # views are still written to: one look, not two
    assert [path for path in tree(stack.folder) if not any(path.is_relative_to(folder) for folder in own)] == []
    assert tree(stack.data / "incoming") == set()
