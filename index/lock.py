"""One writer a data directory."""

import fcntl
import os
import socket
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from index.files import make_folder

LOCK_NAME = "writer.lock"
LOOKS = 25  # tries to take the lock: `has_writer` of another process may hold it, for less than a millisecond
LOOK_EVERY_S = 0.01


class Locked(Exception):
    """Another process writes here, `holder`; the message says so."""

    def __init__(self, message: str, holder: str) -> None:
        super().__init__(message)
        self.holder = holder


class WriterLock:
    """Held from construction to close (or the end of the process, however it ends)."""

    def __init__(self, data_dir: Path) -> None:
        """Take the lock, making the folder when needed; Locked when another process has it."""
        make_folder(data_dir, private=True)
        # The file stays when the lock is given back: removing it would let two processes lock two files.
        self._file = (data_dir / LOCK_NAME).open("a+", encoding="utf-8")
        try:
            take_lock(self._file.fileno(), data_dir)
        except BlockingIOError:
            self._file.seek(0)
            holder = self._file.read().strip() or "another process"
            self._file.close()
            told = f"{data_dir} is already written by {holder}; only one worker may write a data directory"
            raise Locked(told, holder) from None
        except OSError:
            self._file.close()
            raise
        self._file.truncate(0)
        self._file.write(f"process {os.getpid()} on {socket.gethostname()}")
        self._file.flush()

    def close(self) -> None:
        """Give the lock back."""
        self._file.close()

    def __enter__(self) -> Self:
        """Return the lock, which the block then holds."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the lock back."""
        self.close()


def take_lock(file: int, folder: Path) -> None:
    """Take the lock of an open file; BlockingIOError where another process keeps it, another OSError, which says what
    to do, where the file system of `folder` gives none."""
    for look in range(LOOKS):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if look == LOOKS - 1:
                raise
            time.sleep(LOOK_EVERY_S)
        except OSError as fault:
            advice = "name a folder on a file system with locks, as a local disk has"
            raise OSError(fault.errno, f"{fault.strerror}; {advice}", str(folder)) from fault


def has_writer(data_dir: Path) -> bool | None:
    """Whether a process of this machine holds the WriterLock; None where nobody ever did, or it cannot be known.

    The lock ends with its process, so a writer that was killed is none from that moment on.
    """
    try:
        with (data_dir / LOCK_NAME).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    return False
