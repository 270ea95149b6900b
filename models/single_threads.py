"""Threads that each do a whole piece of work, with PyTorch's operators in one thread.

Threads inside an operator meet at a barrier hundreds of times a picture or query. Where another process has one of the
processors, each barrier waits for the scheduler; a whole piece a thread waits for nobody.
"""

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import lru_cache
from typing import TypeVar

import torch

Given = TypeVar("Given")
T = TypeVar("T")

_of_thread = threading.local()


class SingleThreads:
    """So many threads; operators that they call use no further one."""

    def __init__(self, count: int, name: str = "single") -> None:
        started, before = threading.Barrier(count + 1), torch.get_num_threads()

        def begin() -> None:
            _of_thread.usual = before
            torch.get_num_threads()  # the first call in a thread takes the default, and would undo the next line later
            torch.set_num_threads(1)  # of this thread, and the default of those that are yet to come
            started.wait()

        self._pool = ThreadPoolExecutor(count, thread_name_prefix=name)
        try:
            begun = [self._pool.submit(begin) for _ in range(count)]
        except BaseException:  # no more threads may be had: those that there are must not wait for them
            started.abort()
            raise
        started.wait()
        torch.set_num_threads(before)  # the default again
        for one in begun:
            one.result()

    @property
    def executor(self) -> Executor:
        """The threads, for work of every kind."""
        return self._pool

    def map(self, work: Callable[[Given], T], items: Iterable[Given]) -> list[T]:
        """The result of each item in order; the first fault, once nothing runs any more."""
        return ended(self.start(work, items))

    def start(self, work: Callable[[Given], T], items: Iterable[Given]) -> "list[Future[T]]":
        """The work on each item in order, begun; its end is for the caller to wait for."""
        return [self._pool.submit(work, item) for item in items]


def usual_threads() -> int:
    """The number of threads inside an operator where nobody asked for one alone, whichever thread wants to know."""
    usual: int | None = getattr(_of_thread, "usual", None)
    return torch.get_num_threads() if usual is None else usual


def ended(running: "Sequence[Future[T]]") -> list[T]:
    """The results in order; the first fault, once nothing runs any more."""
    faults = [fault for one in running if (fault := one.exception()) is not None]
    if faults:
        raise faults[0]
    return [one.result() for one in running]


@lru_cache
def single_threads(count: int) -> SingleThreads:
    """The threads of this process, `count` of them."""
    return SingleThreads(count)


# A child has none of its parent's threads, and makes its own.
os.register_at_fork(after_in_child=single_threads.cache_clear)
