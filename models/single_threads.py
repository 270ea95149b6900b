"""Threads that each process whole items, with PyTorch's operators in one thread.

Threads inside an operator meet at a barrier hundreds of times per picture or query. If another process occupies one of
the processors, each barrier waits for the scheduler; threads with whole items do not wait for each other.
"""

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import lru_cache
from typing import TypeVar

import torch

Argument = TypeVar("Argument")
T = TypeVar("T")

_of_thread = threading.local()


class SingleThreads:
    """A pool of `count` threads, whose operators use no further thread."""

    def __init__(self, count: int, name: str = "single") -> None:
        started, before = threading.Barrier(count + 1), torch.get_num_threads()

        def begin() -> None:
            _of_thread.usual = before
            torch.get_num_threads()  # the first call in a thread sets the default, and would later undo the next line
            torch.set_num_threads(1)  # of this thread, and the default of later threads
            started.wait()

        self._pool = ThreadPoolExecutor(count, thread_name_prefix=name)
        try:
            starts = [self._pool.submit(begin) for _ in range(count)]
        except BaseException:  # no more threads are available: the existing ones must not wait for them
            started.abort()
            raise
        started.wait()
        torch.set_num_threads(before)  # restores the default
        for start in starts:
            start.result()

    @property
    def executor(self) -> Executor:
        """The threads, for work of every kind."""
        return self._pool

    def map(self, work: Callable[[Argument], T], items: Iterable[Argument]) -> list[T]:
        """The results in order, or the first exception after all work has ended."""
        return ended(self.start(work, items))

    def start(self, work: Callable[[Argument], T], items: Iterable[Argument]) -> "list[Future[T]]":
        """Futures of the work on each item in order, for which the caller waits."""
        return [self._pool.submit(work, item) for item in items]


def usual_threads() -> int:
    """The number of threads inside an operator of other threads, also when asked in one of these."""
    usual: int | None = getattr(_of_thread, "usual", None)
    return torch.get_num_threads() if usual is None else usual


def ended(running: "Sequence[Future[T]]") -> list[T]:
    """The results in order, or the first exception after all have ended."""
    faults = [fault for future in running if (fault := future.exception()) is not None]
    if faults:
        raise faults[0]
    return [future.result() for future in running]


@lru_cache
def single_threads(count: int) -> SingleThreads:
    """The `count` threads of this process, shared by all callers."""
    return SingleThreads(count)


# A forked child has none of its parent's threads, and starts new ones.
os.register_at_fork(after_in_child=single_threads.cache_clear)
