"""A gate that clients pass for each request, and that checks close while they run."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    """Any number of concurrent turns, or one holder that has closed the gate."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._turns, self._is_closed = 0, False

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait until the gate is open, and keep it from being closed while the block runs."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_closed)
            self._turns += 1
        try:
            yield
        finally:
            with self._changed:
                self._turns -= 1
                self._changed.notify_all()

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Close the gate while the block runs, which begins once all turns have ended."""
        with self._changed:
            self._is_closed = True
            self._changed.wait_for(lambda: not self._turns)
        try:
            yield
        finally:
            with self._changed:
                self._is_closed = False
                self._changed.notify_all()
