"""A picture that ends the worker is set aside in the end, and no other is with it."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import PIL.Image
import pytest
import torch

from service.worker.worker import MOST_STARTS
from tests.support.fakes import FakeExtractor
from tests.support.pictures import encoded
from tests.support.project_files import ROOT
from tests.support.worker_store import Store, noise

# Works off the queue until it is empty; a red picture kills the process, as a want of memory would.
WORKER = """
import os, pathlib, signal, sys
from tests.support.fakes import FakeExtractor
from tests.support.worker_store import Store
class Deadly(FakeExtractor):
    def extract(self, pictures):
        if any(picture.getpixel((0, 0)) == (255, 0, 0) for picture in pictures):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().extract(pictures)
Store(pathlib.Path(sys.argv[1])).drain(Deadly())
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path)
    yield made
    made.catalog.close()


def test_a_picture_that_kills_the_worker_becomes_a_failure_and_costs_no_other(store: Store) -> None:
    pictures = {store.accept(encoded(noise(seed), "PNG")): noise(seed) for seed in range(2)}
    deadly = store.accept(encoded(PIL.Image.new("RGB", (20, 20), "red"), "PNG"))
    pictures |= {store.accept(encoded(noise(seed), "PNG")): noise(seed) for seed in range(2, 5)}
    command = [sys.executable, "-c", WORKER, str(store.folder)]
    ended = [subprocess.run(command, cwd=ROOT, check=False).returncode for _ in range(MOST_STARTS + 1)]
    assert ended == [-9] * MOST_STARTS + [0]
    (failure,) = store.catalog.failures()
    assert (failure.image_id, failure.attempts) == (deadly, MOST_STARTS)
    assert "ended the worker 5 times" in failure.reason
    store.check(pictures)


class Failing(FakeExtractor):
    """Ends every detection with an exception that no picture is blamed for."""

    def extract(self, pictures: object) -> object:  # type: ignore[override]
        raise torch.AcceleratorError("gone")


def test_a_worker_that_ends_by_itself_blames_no_picture(store: Store) -> None:
    store.accept(encoded(noise(1), "PNG"))
    for _ in range(MOST_STARTS + 1):
        with store.worker(Failing()) as (worker, _), pytest.raises(torch.AcceleratorError):
            worker.run_once()
    assert [(one.starts, one.attempts) for one in store.catalog.queued(9)] == [(0, 0)]
