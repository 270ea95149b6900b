"""Decoding of pictures before their turn, so that decoders and detector work at the same time."""

from collections.abc import Callable, Collection
from concurrent.futures import Future
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar

from index.records import Image, QueuedPicture
from service.media.decode_pool import DecodedPicture, DecodePool
from service.storage.originals import Originals

Stored = TypeVar("Stored", bound=QueuedPicture | Image)

DecodedFiles: TypeAlias = tuple[Path, Path | None, Path | None]
"""The original, and where to write its thumbnail and its file without metadata; None for a file not wanted."""


def files_to_make(originals: Originals, stored: QueuedPicture | Image) -> DecodedFiles:
    """The picture's original, and the paths of those derived files that are missing."""
    image_id, extension = stored.image_id, stored.extension
    thumbnail = None if originals.find_thumbnail(image_id) else originals.thumbnail(image_id)
    stripped = None if originals.find_stripped(image_id, extension) else originals.stripped(image_id, extension)
    return originals.path(image_id, extension), thumbnail, stripped


class DecodingAhead(Generic[Stored]):
    """Pictures that are being decoded, or are decoded already, by id."""

    def __init__(
        self, pool: DecodePool, files_of: Callable[[Stored], DecodedFiles], *, with_coordinates: bool = False
    ) -> None:
        """`with_coordinates` as in `DecodePool.decode`."""
        self._pool, self._files_of, self._with_coordinates = pool, files_of, with_coordinates
        self._futures: dict[str, Future[DecodedPicture]] = {}

    def begin(self, picture: Stored) -> None:
        """Have a picture decoded after those begun before; do nothing if it is one of them."""
        if picture.image_id not in self._futures:
            files = self._files_of(picture)
            self._futures[picture.image_id] = self._pool.submit(*files, with_coordinates=self._with_coordinates)

    def is_done(self, image_id: str) -> bool:
        """Whether `take` would return a begun picture without waiting."""
        return self._futures[image_id].done()

    def take(self, picture: Stored) -> DecodedPicture:
        """The picture, decoded now if it was not begun. Raises DecodeFailed, or OSError for a full disk."""
        future = self._futures.pop(picture.image_id, None)
        if future is not None:
            return future.result()
        return self._pool.decode(*self._files_of(picture), with_coordinates=self._with_coordinates)

    def keep(self, image_ids: Collection[str]) -> None:
        """Drop all pictures but these; the others are decoded again in their turn."""
        for image_id in self._futures.keys() - set(image_ids):
            self._futures.pop(image_id).cancel()

    def forget(self) -> None:
        """Drop all pictures."""
        self.keep(())
