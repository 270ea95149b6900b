"""A bound on concurrent requests of one kind, such as uploads."""

from collections.abc import Iterator
from contextlib import contextmanager

from service.errors import Overloaded

MAX_ARCHIVES = 8  # each of which holds a thread while its files are read
MAX_STREAMS = 64  # of events, each of which holds a connection
SLOT_RETRY_S = 5


class RequestSlots:
    """Counts the requests of one kind. For one event loop, since counts change between awaits."""

    def __init__(self, most: int, refusal: str) -> None:
        """`refusal` is the message to a request too many, with `{most}` for the bound."""
        self._most, self._refusal = most, refusal
        self.num_open = 0

    @classmethod
    def of_uploads(cls, most: int) -> "RequestSlots":
        """A bound on uploads."""
        return cls(most, "{most} uploads are being received, and no more are; try again shortly.")

    @classmethod
    def of_decoding(cls, most: int) -> "RequestSlots":
        """A bound on the requests that wait for a picture to be decoded."""
        return cls(most, "{most} pictures that are asked with or explained are being decoded; try again shortly.")

    @classmethod
    def of_streams(cls, most: int = MAX_STREAMS) -> "RequestSlots":
        """A bound on event streams."""
        return cls(most, "{most} streams of events are open, and no more are; ask for the job itself instead.")

    @classmethod
    def of_archives(cls, most: int = MAX_ARCHIVES) -> "RequestSlots":
        """A bound on archives."""
        return cls(most, "{most} archives are being downloaded, and no more are; try again shortly.")

    def check(self) -> None:
        """Overloaded where no slot is free."""
        if self.num_open >= self._most:
            raise Overloaded(self._refusal.format(most=self._most), retry_after=SLOT_RETRY_S)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """A slot, held until the block ends; Overloaded as `check`."""
        self.check()
        self.num_open += 1
        try:
            yield
        finally:
            self.num_open -= 1
