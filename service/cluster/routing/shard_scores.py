"""The scores and records of pictures that the shards have reported so far, in one query."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from index.records import Image
from service.cluster.routing.merging import RowTable
from service.cluster.shards.search import ABSENT
from service.search.scoring.rerank import RowNumbers, Scores


class ShardScores:
    """The scores of pictures with the sentence scored first, and their records, in whatever order they arrive.

    A picture that is being moved may be reported by two shards, one of which no longer finds it, or not yet.
    """

    def __init__(self, pictures: RowTable[str]) -> None:
        """`pictures` are the query's rows."""
        self._pictures = pictures
        self._scores: dict[str, np.float32] = {}  # ABSENT where no shard that was asked found the picture
        self._images: dict[str, Image | None] = {}  # None where it is not shown

    def take(self, scores: Mapping[str, np.float32], images: Iterable[Image]) -> None:
        """Record a shard's scores and pictures; a picture that is absent from all its shards is not shown."""
        for name, score in scores.items():
            if score != ABSENT:
                self._scores[name] = score
                if name in self._images and self._images[name] is None:
                    del self._images[name]
            elif self._scores.setdefault(name, score) == ABSENT:
                self._images[name] = None
        self._images |= {image.image_id: image for image in images}

    def take_image(self, image: Image) -> None:
        """Record a picture that came without a score; a record that came with one is kept."""
        self._images.setdefault(image.image_id, image)

    def take_images(self, images: Mapping[str, Image | None]) -> None:
        """Record pictures by id, None for one that is not shown."""
        self._images |= images

    def unscored(self, rows: RowNumbers) -> list[int]:
        """The rows without a score."""
        return [row for row in rows if self._pictures.names[row] not in self._scores]

    def unread(self, rows: Sequence[int]) -> list[int]:
        """The rows without a record."""
        return [row for row in rows if self._pictures.names[row] not in self._images]

    def elsewhere(self, rows: RowNumbers) -> dict[int, list[str]]:
        """Shard -> the pictures of the rows that it has although the shard that was asked did not find them."""
        return self._pictures.elsewhere(name for name in self._pictures.of_rows(rows) if self._scores[name] == ABSENT)

    def of_rows(self, rows: RowNumbers) -> Scores:
        """The [len(rows)] scores of rows, all of which have one."""
        return np.array([self._scores[name] for name in self._pictures.of_rows(rows)], np.float32)

    def images_of(self, rows: Sequence[int]) -> list[Image | None]:
        """The pictures of rows, all of which are read, their `slot` being the row; None where one is not shown."""
        images = [self._images[name] for name in self._pictures.of_rows(rows)]
        return [None if image is None else replace(image, slot=row) for row, image in zip(rows, images, strict=True)]
