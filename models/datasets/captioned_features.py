"""Captioned pictures as arrays: region features (memory-mapped) beside the captions of each picture."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from models.batches import Regions
from models.datasets.captions import CaptionLine, read_captions
from models.datasets.feature_store import Features

__all__ = ["CaptionLine", "CaptionedFeatures", "read_captions"]


@dataclass(frozen=True)
class CaptionedFeatures:
    """N captioned pictures among the rows of extracted arrays, which stay memory-mapped."""

    features: np.ndarray  # [M R F], any float type
    mask: np.ndarray  # [M R]
    captions: Sequence[Sequence[str]]  # of N pictures
    extractor_digest: str
    rows: np.ndarray  # [N], the row of each picture in the arrays

    @classmethod
    def whole(
        cls, features: np.ndarray, mask: np.ndarray, captions: Sequence[Sequence[str]], digest: str
    ) -> "CaptionedFeatures":
        """Arrays with one row a caption list, in the same order."""
        if not len(features) == len(mask) == len(captions):
            counts = len(features), len(mask), len(captions)
            raise ValueError(f"features, masks and caption lists differ in number: {counts}")
        return cls(features, mask, captions, digest, np.arange(len(features)))

    @classmethod
    def join(cls, features: Features, lines: Sequence[CaptionLine]) -> "CaptionedFeatures":
        """The captioned pictures of `lines` among extracted ones; ValueError names a picture not extracted."""
        row_of = {name: row for row, name in enumerate(features.ids)}
        missing = [line.image for line in lines if line.image not in row_of]
        if missing:
            raise ValueError(f"{len(missing)} captioned pictures were not extracted, the first is {missing[0]}")
        rows = np.array([row_of[line.image] for line in lines])
        return cls(features.features, features.mask, [line.captions for line in lines], features.digest, rows)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def feature_dim(self) -> int:
        """Width F of a region's feature."""
        return int(self.features.shape[2])

    def regions(self, chosen: "slice | Sequence[int] | np.ndarray") -> Regions:
        """Raw features of some of the N pictures, float32."""
        rows = self.rows[chosen]
        return Regions(torch.from_numpy(self.features[rows].astype(np.float32)), torch.from_numpy(self.mask[rows]))

    def first(self, num: int) -> "CaptionedFeatures":
        """The first `num` pictures, or all where there are fewer."""
        return replace(self, captions=self.captions[:num], rows=self.rows[:num])

    def fewer(self, regions: int) -> "CaptionedFeatures":
        """Only the first regions of every picture; the shipped detector's first is the whole picture, then the surest.

        They go by a digest of their own, so that no model learns from them and is then served all regions.
        """
        held = self.features.shape[1]
        if not 1 <= regions <= held:
            raise ValueError(f"pictures have {held} regions, of which {regions} cannot be kept")
        digest = f"{self.extractor_digest}-first-{regions}"
        kept = slice(None), slice(regions)
        return replace(self, features=self.features[kept], mask=self.mask[kept], extractor_digest=digest)

    def asking(self, num: int) -> "CaptionedFeatures":
        """The same pictures with the first `num` captions alone."""
        before = np.cumsum([0, *map(len, self.captions)])
        return replace(
            self,
            captions=[own[: max(num - int(start), 0)] for own, start in zip(self.captions, before, strict=False)],
        )

    def sentences(self) -> tuple[list[str], Int64[Tensor, " Q"]]:
        """All captions in the pictures' order, and the picture of each."""
        image_of = [row for row, captions in enumerate(self.captions) for _ in captions]
        return [text for captions in self.captions for text in captions], torch.tensor(image_of)

    def batches(self, size: int, seed: int) -> Iterator[tuple[np.ndarray, list[str]]]:
        """One epoch: every caption once, shuffled by `seed`, no picture twice in a batch (its other captions
        would count as wrong answers). The last, smaller batch of a pass is left out unless it is the only one."""
        random = np.random.default_rng(seed)
        turns = [random.permutation(len(captions)) for captions in self.captions]
        for turn in range(max(map(len, turns))):
            rows = random.permutation([row for row, order in enumerate(turns) if turn < len(order)])
            for start in range(0, max(len(rows) - size + 1, 1), size):
                chosen = rows[start : start + size]
                yield chosen, [self.captions[row][turns[row][turn]] for row in chosen]
