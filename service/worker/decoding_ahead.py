"""Decoding before a picture's turn comes, so that decoders and detector work at the same time."""

from collections.abc import Collection
from concurrent.futures import Future
from pathlib import Path
from typing import TypeAlias

from service.media.decode_pool import DecodedPicture, DecodePool

DecodedFiles: TypeAlias = tuple[Path, Path | None, Path | None]
"""The original, and where to write its thumbnail and its file without metadata; None for what is not wanted."""


class DecodingAhead:
    """Pictures that decoders work on, or have ended, by id."""

    def __init__(self, pool: DecodePool, *, with_position: bool = False) -> None:
        """`with_position` as in `DecodePool.decode`."""
        self._pool, self._with_position = pool, with_position
        self._begun: dict[str, Future[DecodedPicture]] = {}

    def begin(self, image_id: str, files: DecodedFiles) -> None:
        """Have a picture decoded after those that were begun before, unless it is one of them."""
        if image_id not in self._begun:
            self._begun[image_id] = self._pool.submit(*files, with_position=self._with_position)

    def is_done(self, image_id: str) -> bool:
        """Whether `take` would not wait for a picture that was begun."""
        return self._begun[image_id].done()

    def take(self, image_id: str, files: DecodedFiles) -> DecodedPicture:
        """The picture, decoded now if that was not begun. DecodeFailed, or OSError for a failing disk."""
        begun = self._begun.pop(image_id, None)
        return self._pool.decode(*files, with_position=self._with_position) if begun is None else begun.result()

    def keep(self, image_ids: Collection[str]) -> None:
        """Drop all others, which are decoded again if their turn comes."""
        for image_id in self._begun.keys() - set(image_ids):
            self._begun.pop(image_id).cancel()

    def forget(self) -> None:
        """Drop all."""
        self.keep(())
