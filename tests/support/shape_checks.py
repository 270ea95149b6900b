"""Runs without the checks of tensors' shapes, which take longer than a training on a small set itself."""

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
