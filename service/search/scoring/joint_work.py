"""Work of one query that can be done jointly with that of others waiting for the same thread."""

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Item = TypeVar("Item")
T = TypeVar("T")


def _ignore(seconds: float) -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class JointWork(Generic[Item, T]):
    """A call without arguments that does its work alone; work of one group can be `done_together` instead."""

    group: Hashable
    """Equal for work that can be done together, which also has the same `together`."""
    most: int
    """The most that are done at a time."""
    item: Item
    together: Callable[[Sequence[Item]], Sequence[T]]
    """The results of items in their order; it may raise the fault of any of them."""
    took: Callable[[float], None] = _ignore
    """Called with the seconds that the joint work took."""

    def __call__(self) -> T:
        return done_together([self])[0]


def done_together(works: Sequence[JointWork[Item, T]]) -> Sequence[T]:
    """The results of work of one group, in its order."""
    started = time.perf_counter()
    results = works[0].together([work.item for work in works])
    seconds = time.perf_counter() - started
    for work in works:
        work.took(seconds)
    return results
