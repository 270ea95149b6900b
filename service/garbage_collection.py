"""Python's cyclic garbage collector in a process that loads models and answers requests.

A full collection looks at every object that can hold others, and no other thread runs Python meanwhile. With models, a
detector and a web framework loaded there are some 300 000 of them, for which all answers wait 0.13 s. Nearly all stay
as long as the process: looking at them again finds nothing, neither while they are made nor when the process ends.
"""

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collections() -> Iterator[None]:
    """Collect nothing inside, where imports and models make objects that stay. It may stand inside another one."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def collect_nothing_at_exit() -> None:
    """Leave all objects that are there when the process ends to the system, which takes their memory as it is."""
    atexit.register(gc.freeze)


def pass_over_loaded_objects() -> None:
    """Collect what is garbage now, and leave all other objects of now out of later collections.

    They are still freed as soon as nothing refers to them, unless they refer to each other in a ring.
    """
    gc.collect()
    gc.freeze()
