"""Originals as archives read them, wherever they are stored."""

from collections.abc import Iterable
from typing import IO, Protocol

from index.records import Image
from service.storage.originals import Originals


class OriginalFiles(Protocol):
    """The originals of one data directory, or of a cluster. Thread-safe."""

    def missing(self, images: Iterable[Image]) -> list[str]:
        """The ids of those whose original is missing or damaged, as far as that is known before it is read."""

    def open(self, image: Image) -> IO[bytes]:
        """A picture's original. Raises FileNotFoundError where it is missing."""


class LocalOriginalFiles(OriginalFiles):
    """The originals of one data directory."""

    def __init__(self, originals: Originals) -> None:
        self._originals = originals

    def missing(self, images: Iterable[Image]) -> list[str]:
        lacks = self._originals.lacks
        return [one.image_id for one in images if lacks(one.image_id, one.extension, one.num_bytes)]

    def open(self, image: Image) -> IO[bytes]:
        return self._originals.path(image.image_id, image.extension).open("rb")
