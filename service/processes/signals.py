"""Signals that tell a process something, passed on by a thread."""

import os
import signal
import threading
from collections.abc import Collection


def set_by_signals(event: threading.Event, numbers: Collection[signal.Signals]) -> None:
    """Set the event once one of these signals comes, and from then on whenever one does. For the main thread.

    A handler may not set it: handlers run in the midst of what the main thread does, and if that is waiting for the
    event, it may hold the event's lock, which the handler would wait for without end.
    """
    told, telling = os.pipe()
    os.set_blocking(telling, False)
    signal.set_wakeup_fd(telling, warn_on_full_buffer=False)
    for number in numbers:
        signal.signal(number, _go_on)

    def pass_on() -> None:
        while came := os.read(told, 1):
            if came[0] in numbers:
                event.set()

    threading.Thread(target=pass_on, name="signals", daemon=True).start()


def _go_on(number: int, frame: object) -> None:
    """Python tells the thread of signals that have a handler, which the process then survives."""
