"""A file that is sent with its size at the start, even if it is being written to."""

import errno
import io
import os
from pathlib import Path
from types import TracebackType
from typing import Self


class SentFile:
    """A file limited to its size when it was opened, since a request's length is sent before its content.

    What other programs append meanwhile is not sent. Reading a file that became shorter raises OSError with its name.
    """

    def __init__(self, path: Path) -> None:
        """Open the file."""
        self._path = path
        self._file = path.open("rb")
        self._size = os.fstat(self._file.fileno()).st_size

    def read(self, num_bytes: int = -1) -> bytes:
        """The next `num_bytes` bytes, fewer at the end of the file; all that are left for a negative number."""
        left = max(0, self._size - self._file.tell())
        wanted = left if num_bytes < 0 else min(num_bytes, left)
        content = self._file.read(wanted)
        if len(content) < wanted:
            raise OSError(errno.EIO, "became shorter while it was sent; send it again", str(self._path))
        return content

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position relative to the beginning, the current position or the end."""
        from_end = whence == io.SEEK_END
        return self._file.seek(self._size + offset if from_end else offset, io.SEEK_SET if from_end else whence)

    def tell(self) -> int:
        """The position of the next byte."""
        return self._file.tell()

    def __enter__(self) -> Self:
        """The file itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self._file.close()
