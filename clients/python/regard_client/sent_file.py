"""A file as it is when it begins to be sent, whatever is written to it meanwhile."""

import errno
import io
import os
from pathlib import Path
from types import TracebackType
from typing import Self


class SentFile:
    """As many bytes of a file as it had when it was opened: how long a request is, is said before it is sent.

    What another program adds meanwhile is not sent. A file that becomes shorter cannot be sent: OSError names it.
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
        """Move to a place counted from the beginning, from here, or from the end."""
        from_end = whence == io.SEEK_END
        return self._file.seek(self._size + offset if from_end else offset, io.SEEK_SET if from_end else whence)

    def tell(self) -> int:
        """The place of the next byte."""
        return self._file.tell()

    def __enter__(self) -> Self:
        """The file itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self._file.close()
