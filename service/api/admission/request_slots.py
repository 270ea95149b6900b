"""A bound on the requests that do the same at the same time, such as to send files."""

from collections.abc import Iterator
from contextlib import contextmanager

from service.errors import Overloaded

MAX_STREAMS = 64  # of events: each holds a connection
SLOT_RETRY_S = 5


class RequestSlots:
    """Counts such requests. For one event loop: every count changes between two awaits."""

    def __init__(self, most: int, refusal: str) -> None:
        """`refusal` says, with `{most}` in it, what is in the way of one more."""
        self._most, self._refusal = most, refusal
        self.num_open = 0

    @classmethod
    def of_uploads(cls, most: int) -> "RequestSlots":
        """A bound on the requests with files that are received."""
        return cls(most, "{most} uploads are being received, and no more are; try again shortly.")

    @classmethod
    def of_decoding(cls, most: int) -> "RequestSlots":
        """A bound on the requests that wait for a picture to be decoded."""
        return cls(most, "{most} pictures that are asked with or explained are being decoded; try again shortly.")

    @classmethod
    def of_streams(cls, most: int = MAX_STREAMS) -> "RequestSlots":
        """A bound on the streams of events."""
        return cls(most, "{most} streams of events are open, and no more are; ask for the job itself instead.")

    def check(self) -> None:
        """Overloaded where there is no place for one more request."""
        if self.num_open >= self._most:
            raise Overloaded(self._refusal.format(most=self._most), retry_after=SLOT_RETRY_S)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """A place for one request until the block ends; Overloaded as `check`."""
        self.check()
        self.num_open += 1
        try:
            yield
        finally:
            self.num_open -= 1
