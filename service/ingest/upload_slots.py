"""A bound on the requests with files that are received at the same time."""

from collections.abc import Iterator
from contextlib import contextmanager

from service.errors import Overloaded

UPLOAD_RETRY_S = 5


class UploadSlots:
    """Counts open uploads. For one event loop: every count changes between two awaits."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.num_open = 0

    @contextmanager
    def taken(self) -> Iterator[None]:
        """A place for one upload until the block ends; Overloaded where there is none."""
        if self.num_open >= self._most:
            raise Overloaded(
                f"{self._most} uploads are being received, and no more are; try again shortly.",
                retry_after=UPLOAD_RETRY_S,
            )
        self.num_open += 1
        try:
            yield
        finally:
            self.num_open -= 1
