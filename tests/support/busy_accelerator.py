"""An accelerator that is kept busy for as long as a test wants."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from service.api.admission.accelerator import AcceleratorQueue

PATIENCE_S = 30.0


@contextmanager
def busy(queue: AcceleratorQueue) -> Iterator[threading.Event]:
    """Block the accelerator's thread until the event is set, or the `with` block ends."""
    begun, go = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        assert go.wait(PATIENCE_S)

    future = queue.enqueue(0, wait)
    assert begun.wait(PATIENCE_S)
    try:
        yield go
    finally:
        go.set()
        future.result(PATIENCE_S)
