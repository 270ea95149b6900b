"""Ctrl-C and SIGTERM in a training: its step is finished and saved first."""

import os
import signal
import threading
from types import FrameType
from typing import Any


class Stopped(KeyboardInterrupt):
    """The end of a training by a signal, with everything saved."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class StopSignals:
    """Within the block, the first Ctrl-C or SIGTERM is only remembered; a second Ctrl-C ends the program at once.

    Ignored signals stay so, as in a script's background. No effect outside the main thread.
    """

    received: int | None = None

    def __enter__(self) -> "StopSignals":
        self._before: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._before[number] = signal.signal(number, self._remember)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raise Stopped if a signal was received."""
        if self.received is not None:
            raise Stopped(self.received)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if self.received is None:
            self.received = number
            # Not by print, which this may interrupt.
            os.write(2, b"\nstopping after this step; Ctrl-C again: at once, without saving\n")
        elif number == signal.SIGINT:
            raise KeyboardInterrupt
