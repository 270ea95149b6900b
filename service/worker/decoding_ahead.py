"""Decoding before a picture's turn comes, so that decoders and detector work at the same time."""

from collections.abc import Callable, Collection
from concurrent.futures import Future
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar

from index.records import Image, QueuedPicture
from service.media.decode_pool import DecodedPicture, DecodePool
from service.storage.originals import Originals

Stored = TypeVar("Stored", bound=QueuedPicture | Image)

DecodedFiles: TypeAlias = tuple[Path, Path | None, Path | None]
"""The original, and where to write its thumbnail and its file without metadata; None for what is not wanted."""


def files_to_make(originals: Originals, stored: QueuedPicture | Image) -> DecodedFiles:
    """The picture's original, and those of the files made of it that are not there."""
    image_id, extension = stored.image_id, stored.extension
    thumbnail = None if originals.find_thumbnail(image_id) else originals.thumbnail(image_id)
    stripped = None if originals.find_stripped(image_id, extension) else originals.stripped(image_id, extension)
    return originals.path(image_id, extension), thumbnail, stripped


class DecodingAhead(Generic[Stored]):
    """Pictures that decoders work on, or have ended, by id."""

    def __init__(
        self, pool: DecodePool, files_of: Callable[[Stored], DecodedFiles], *, with_coordinates: bool = False
    ) -> None:
        """`with_coordinates` as in `DecodePool.decode`."""
        self._pool, self._files_of, self._with_coordinates = pool, files_of, with_coordinates
        self._begun: dict[str, Future[DecodedPicture]] = {}

    def begin(self, picture: Stored) -> None:
        """Have a picture decoded after those that were begun before, unless it is one of them."""
        if picture.image_id not in self._begun:
            files = self._files_of(picture)
            self._begun[picture.image_id] = self._pool.submit(*files, with_coordinates=self._with_coordinates)

    def is_done(self, image_id: str) -> bool:
        """Whether `take` would not wait for a picture that was begun."""
        return self._begun[image_id].done()

    def take(self, picture: Stored) -> DecodedPicture:
        """The picture, decoded now if that was not begun. DecodeFailed, or OSError for a full disk."""
        begun = self._begun.pop(picture.image_id, None)
        if begun is not None:
            return begun.result()
        return self._pool.decode(*self._files_of(picture), with_coordinates=self._with_coordinates)

    def keep(self, image_ids: Collection[str]) -> None:
        """Drop all others, which are decoded again if their turn comes."""
        for image_id in self._begun.keys() - set(image_ids):
            self._begun.pop(image_id).cancel()

    def forget(self) -> None:
        """Drop all."""
        self.keep(())
