"""Runs without the checks of tensors' shapes, which take longer than a training on a small set itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jaxtyping

from models.training.logs import Log


@contextmanager
def unchecked_shapes() -> Iterator[None]:
    """Calls of `models` go unchecked; for the repetition of what other tests run with all checks."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", before)


@contextmanager
def checked_at_first(log: Log) -> Iterator[Log]:
    """A training's log, by which its first step is checked and all that comes after its first entry is not."""
    before = jaxtyping.config.jaxtyping_disable

    def told(entry: dict[str, Any]) -> None:
        jaxtyping.config.update("jaxtyping_disable", True)
        log(entry)

    try:
        yield told
    finally:
        jaxtyping.config.update("jaxtyping_disable", before)
