"""Signals that set an event, by way of a thread."""

import os
import signal
import threading
from collections.abc import Collection


def set_by_signals(event: threading.Event, numbers: Collection[signal.Signals]) -> None:
    """Set the event whenever one of these signals arrives. For the main thread.

    A signal handler must not set it: it interrupts the main thread, which may hold the event's lock while waiting for
    the event, so that the handler would deadlock.
    """
    signals_read, signals_write = os.pipe()
    os.set_blocking(signals_write, False)
    signal.set_wakeup_fd(signals_write, warn_on_full_buffer=False)
    for number in numbers:
        signal.signal(number, _ignore)

    def pass_on() -> None:
        while number := os.read(signals_read, 1):
            if number[0] in numbers:
                event.set()

    threading.Thread(target=pass_on, name="signals", daemon=True).start()


def _ignore(number: int, frame: object) -> None:
    """Do nothing: Python writes signals to the wake-up pipe only where they have a handler."""
