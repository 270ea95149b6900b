"""A program that runs workers on fakes, one after the other: a line on stdin starts the next.

It prints the worker's process id, and its exit status once it has ended. Forking saves each worker the seconds
that importing PyTorch takes.
"""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import PIL.Image

from models.extractors.base import Detections
from service.settings import Settings
from service.worker.process import serve_worker
from tests.support.fakes import FakeExtractor, FakeMatcher


class SlowExtractor(FakeExtractor):
    """Takes a while, so that a kill finds it at work."""

    def extract(self, pictures: Sequence[PIL.Image.Image]) -> Detections:
        time.sleep(0.02)
        return super().extract(pictures)


def main() -> None:
    """Run one worker with `--once`, otherwise one for every line on stdin."""
    settings = Settings(data_dir=Path(sys.argv[1]), detect_batch=2, decode_workers=1)
    if sys.argv[2:] == ["--once"]:
        serve_worker(settings, SlowExtractor(), [FakeMatcher()], with_stdin=True)
        return
    while sys.stdin.readline():
        worker = os.fork()
        if worker == 0:
            serve_worker(settings, SlowExtractor(), [FakeMatcher()], with_stdin=False)
            os._exit(0)
        print(worker, flush=True)
        print(os.waitpid(worker, 0)[1], flush=True)


if __name__ == "__main__":
    main()
