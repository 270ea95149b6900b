"""Work of one query that is done with that of others, where they wait for the same thread."""

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Item = TypeVar("Item")
T = TypeVar("T")


def _tell_nobody(seconds: float) -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class JointWork(Generic[Item, T]):
    """A call without arguments that does its work alone; works of one group can be `done_together` instead."""

    group: Hashable
    """Equal for works that can be done together; they have the same `together`."""
    most: int
    """How many are done at a time at most."""
    item: Item
    together: Callable[[Sequence[Item]], Sequence[T]]
    """The results of items in their order; a fault may be that of any of them."""
    took: Callable[[float], None] = _tell_nobody
    """Called with the seconds that the work took, together with that of others."""

    def __call__(self) -> T:
        return done_together([self])[0]


def done_together(works: Sequence[JointWork[Item, T]]) -> Sequence[T]:
    """The results of works of one group, in their order."""
    started = time.perf_counter()
    results = works[0].together([work.item for work in works])
    seconds = time.perf_counter() - started
    for work in works:
        work.took(seconds)
    return results
