"""A gate that clients pass for each request, and that a check closes while it looks."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    """Any number of turns at a time, or one who has closed it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._turns, self._is_closed = 0, False

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait until it is open, and keep it from being closed while the block runs."""
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
        """Let nobody in while the block runs, which begins when all turns have ended."""
        with self._changed:
            self._is_closed = True
            self._changed.wait_for(lambda: not self._turns)
        try:
            yield
        finally:
            with self._changed:
                self._is_closed = False
                self._changed.notify_all()
