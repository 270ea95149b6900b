"""Batches made in a thread while the training computes."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Made = TypeVar("Made")


def made_ahead(make: Callable[[int], Made], steps: range) -> Iterator[Made]:
    """The result of `make` for every step, in order; that for the next step is made in a thread meanwhile."""
    with ThreadPoolExecutor(1) as pool:
        coming: Future[Made] | None = None
        for step in steps:
            ready, coming = coming, pool.submit(make, step)
            if ready is not None:
                yield ready.result()
        if coming is not None:
            yield coming.result()
