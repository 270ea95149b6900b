"""The output folder of a long command, which one process at a time may write."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from index.lock import take_lock
from models.training.stopping import Stopped
from service.cli.terminal.output import print_note
from service.errors import UserError


@contextmanager
def sole_writer(out: Path, goes_on: bool = True) -> Iterator[None]:
    """Keeps other commands from writing the folder, which is made where it is missing, until the block ends.

    UserError if another process writes it. `goes_on`: a note after Ctrl-C says that the same command resumes the work.
    """
    out.mkdir(parents=True, exist_ok=True)
    folder = os.open(out, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        take_lock(folder, out)
    except BlockingIOError:
        os.close(folder)
        raise UserError(f"another process writes {out}: let it finish, or name another folder") from None
    except OSError:
        os.close(folder)
        raise
    try:
        yield
    except KeyboardInterrupt as end:
        if goes_on:
            saved = ", to the last step" if isinstance(end, Stopped) else ""
            print_note(f"\nstopped: the same command resumes with what {out} holds{saved}")
        if isinstance(end, Stopped) and end.number == signal.SIGTERM:
            raise SystemExit(128 + signal.SIGTERM) from None
        raise
    finally:
        os.close(folder)
