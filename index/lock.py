"""One writer a data directory."""

from pathlib import Path
from types import TracebackType


class Locked(Exception):
    """Another process writes here; the message says which."""


class WriterLock:
    """Held from construction to close (or the end of the process, however it ends)."""

    def __init__(self, data_dir: Path) -> None:
        """Take the lock, making the folder when needed; Locked when another process has it."""
        raise NotImplementedError

    def close(self) -> None:
        """Give the lock back."""
        raise NotImplementedError

    def __enter__(self) -> "WriterLock":
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the lock back."""
        self.close()
