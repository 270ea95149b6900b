"""Batches that a thread prepares while the training computes."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


def made_ahead(make: Callable[[int], Result], steps: range) -> Iterator[Result]:
    """The results of `make` for all steps, in order; a thread computes the next one ahead."""
    with ThreadPoolExecutor(1) as pool:
        pending: Future[Result] | None = None
        for step in steps:
            ready, pending = pending, pool.submit(make, step)
            if ready is not None:
                yield ready.result()
        if pending is not None:
            yield pending.result()
