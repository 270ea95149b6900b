"""The time that each stage of a search takes."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from service.search.scoring.joint_work import JointWork

T = TypeVar("T")


class Stopwatch:
    """Milliseconds by stage; stages that were never reached took none."""

    def __init__(self, *stages: str) -> None:
        self.milliseconds = dict.fromkeys(stages, 0.0)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time spent in the block to the stage."""
        started = time.perf_counter()
        yield
        self.add(name, time.perf_counter() - started)

    def add(self, name: str, seconds: float) -> None:
        """Add seconds to the time of the stage."""
        self.milliseconds[name] += seconds * 1000

    def timed(self, name: str, work: Callable[..., T], *arguments: Any) -> Callable[[], T]:
        """`work` as a call without arguments whose time is added to the stage, in whichever thread it runs."""
        if isinstance(work, JointWork):
            return replace(work, took=partial(self.add, name))

        def run() -> T:
            with self.stage(name):
                return work(*arguments)

        return run
