"""Runs without the checks of tensors' shapes, which triple the time of a long training on a small set."""

from collections.abc import Iterator
from contextlib import contextmanager

import jaxtyping


@contextmanager
def unchecked_shapes() -> Iterator[None]:
    """Calls of `models` go unchecked; for the repetition of what other tests run with all checks."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", before)
