"""The folder that a long command writes, which one process at a time may."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from index.lock import take_lock
from service.cli.terminal.output import print_note
from service.errors import UserError


@contextmanager
def sole_writer(out: Path, goes_on: bool = True) -> Iterator[None]:
    """Keeps other commands from writing the folder, which is made where it is missing, until the block ends.

    UserError where another process writes it. Says at Ctrl-C that the same command goes on, where it does.
    """
    out.mkdir(parents=True, exist_ok=True)
    folder = os.open(out, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        take_lock(folder, out)
    except BlockingIOError:
        os.close(folder)
        raise UserError(f"another process writes {out}: let it end, or name another folder") from None
    except OSError:
        os.close(folder)
        raise
    try:
        yield
    except KeyboardInterrupt:
        if goes_on:
            print_note(f"\nstopped: the same command goes on with what {out} holds")
        raise
    finally:
        os.close(folder)
