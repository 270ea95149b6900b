"""One writer a data directory."""

import fcntl
import os
import socket
from pathlib import Path
from types import TracebackType
from typing import Self

from index.files import make_folder

LOCK_NAME = "writer.lock"


class Locked(Exception):
    """Another process writes here; the message says which."""


class WriterLock:
    """Held from construction to close (or the end of the process, however it ends)."""

    def __init__(self, data_dir: Path) -> None:
        """Take the lock, making the folder when needed; Locked when another process has it."""
        make_folder(data_dir)
        # The file stays when the lock is given back: removing it would let two processes lock two files.
        self._file = (data_dir / LOCK_NAME).open("a+", encoding="utf-8")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.seek(0)
            holder = self._file.read().strip() or "another process"
            self._file.close()
            raise Locked(
                f"{data_dir} is already written by {holder}; only one worker may write a data directory"
            ) from None
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
