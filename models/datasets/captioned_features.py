"""Captioned pictures as arrays: region features, which may stay on disk, and the captions of each picture."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from models.batches import Regions
from models.datasets.captions import CaptionLine
from models.datasets.feature_store import ExtractedFeatures

NUM_NAMED = 3  # pictures that a message names


@dataclass(frozen=True)
class CaptionedFeatures:
    """N captioned pictures among the M rows of extracted arrays, which may be memory-mapped."""

    features: np.ndarray
    """[M R F], of any float type."""
    mask: np.ndarray
    """[M R], True where a region is real."""
    captions: Sequence[Sequence[str]]
    """Of each of the N pictures."""
    extractor_digest: str
    rows: np.ndarray
    """[N], the row of each picture in the arrays."""
    names: Sequence[str] | None = None
    """Of each of the N pictures, where they are known."""

    @classmethod
    def from_arrays(
        cls, features: np.ndarray, mask: np.ndarray, captions: Sequence[Sequence[str]], digest: str
    ) -> "CaptionedFeatures":
        """Every row of the arrays with its list of captions. Raises ValueError if their numbers differ."""
        if not len(features) == len(mask) == len(captions):
            counts = len(features), len(mask), len(captions)
            raise ValueError(f"features, masks and caption lists differ in number: {counts}")
        return cls(features, mask, captions, digest, np.arange(len(features)))

    @classmethod
    def join(cls, features: ExtractedFeatures, lines: Sequence[CaptionLine]) -> "CaptionedFeatures":
        """The pictures of `lines` with their features. Raises ValueError for a picture that was not extracted."""
        row_of = {name: row for row, name in enumerate(features.ids)}
        missing = [line.image for line in lines if line.image not in row_of]
        if missing:
            raise ValueError(_not_extracted(missing, len(lines), features.ids))
        rows = np.array([row_of[line.image] for line in lines])
        names = [line.image for line in lines]
        return cls(features.features, features.mask, [line.captions for line in lines], features.digest, rows, names)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def feature_dim(self) -> int:
        """Width F of a region's feature."""
        return int(self.features.shape[2])

    def regions(self, pictures: "slice | Sequence[int] | np.ndarray") -> Regions:
        """Raw features of some of the N pictures, as float32."""
        rows = self.rows[pictures]  # an index array, so that the selected features are a copy
        features = self.features[rows].astype(np.float32, copy=False)
        return Regions(torch.from_numpy(features), torch.from_numpy(self.mask[rows]))

    def first(self, num: int) -> "CaptionedFeatures":
        """The first `num` pictures, or all if there are fewer."""
        return self.pictures(slice(num))

    def pictures(self, chosen: slice) -> "CaptionedFeatures":
        """A slice of the pictures."""
        names = None if self.names is None else self.names[chosen]
        return replace(self, captions=self.captions[chosen], rows=self.rows[chosen], names=names)

    def not_finite(self, pictures: "slice | np.ndarray" = slice(None)) -> str:
        """A message that names the pictures whose features are not all finite, or ""."""
        places = np.arange(len(self))[pictures]
        bad = sorted(int(place) for place in places if not np.isfinite(self.features[self.rows[place]]).all())
        if not bad:
            return ""
        named = [f"picture {place}" if self.names is None else self.names[place] for place in bad[:NUM_NAMED]]
        others = f" and {len(bad) - NUM_NAMED} others" if len(bad) > NUM_NAMED else ""
        return f"the features of {', '.join(named)}{others} hold numbers that are not finite"

    def first_regions(self, num: int) -> "CaptionedFeatures":
        """Only the first `num` regions of every picture. Raises ValueError if pictures have fewer.

        The shipped detector's first region is the whole picture, the others follow by confidence. The extractor's
        digest is marked with the number, so that a model trained on these is not used with all regions.
        """
        num_regions = self.features.shape[1]
        if not 1 <= num <= num_regions:
            raise ValueError(f"pictures have {num_regions} regions, of which {num} cannot be kept")
        digest = f"{self.extractor_digest}-first-{num}"
        kept = slice(None), slice(num)
        return replace(self, features=self.features[kept], mask=self.mask[kept], extractor_digest=digest)

    def first_captions(self, num: int) -> "CaptionedFeatures":
        """All pictures, with only the first `num` captions in total; later pictures have none."""
        starts = np.cumsum([0, *map(len, self.captions)])
        return replace(
            self,
            captions=[texts[: max(num - int(start), 0)] for texts, start in zip(self.captions, starts, strict=False)],
        )

    def sentences(self) -> tuple[list[str], Int64[Tensor, " Q"]]:
        """All Q captions in the pictures' order, and the picture (0 to N - 1) of each."""
        image_of = [picture for picture, captions in enumerate(self.captions) for _ in captions]
        return [text for captions in self.captions for text in captions], torch.tensor(image_of)

    def batches(self, size: int, seed: int, epoch: int = 0) -> Iterator[tuple[np.ndarray, list[str]]]:
        """One epoch of batches (pictures, a caption of each), in which no caption is repeated.

        `seed` and `epoch` decide the order, and which captions are left out.

        No picture is twice in a batch, since its other captions would count as wrong answers. So an epoch has as many
        passes over the pictures as one has captions at most. The last, smaller batch of a pass is left out unless it is
        the only one, and so is a batch of a single picture, which has no wrong answer. Raises ValueError if fewer than
        two pictures have captions.
        """
        if sum(map(bool, self.captions)) < 2:
            raise ValueError("two pictures with captions, at least, are needed to learn from: one is told from another")
        random = np.random.default_rng((seed, epoch))
        orders = [random.permutation(len(captions)) for captions in self.captions]
        for turn in range(max(map(len, orders))):
            pictures = random.permutation([picture for picture, order in enumerate(orders) if turn < len(order)])
            for start in range(0, max(len(pictures) - size + 1, 1), size):
                batch = pictures[start : start + size]
                if len(batch) > 1:
                    yield batch, [self.captions[picture][orders[picture][turn]] for picture in batch]


def _not_extracted(missing: Sequence[str], num_captioned: int, extracted: Sequence[str]) -> str:
    """A message about captioned pictures that were not extracted, or whose names differ from the extracted ones."""
    if len(missing) == num_captioned and extracted:
        return (
            f"none of the {num_captioned} captioned pictures is among the extracted ones: the captions name them like"
            f" {missing[0]}, the features like {extracted[0]}; give both the same names"
        )
    return (
        f"{len(missing)} captioned pictures were not extracted, the first is {missing[0]}: extract them too, or take"
        " their lines out of the captions"
    )
