"""What turns pictures into regions: the interface that a detector of any make fills in."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import PIL.Image
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from models.batches import Regions, Rows

PICTURE = "picture"  # the label of the region that is the whole picture
REGION = "region"  # the label of a region of which nothing more is known


@dataclass(frozen=True)
class Detections(Rows):
    """Regions of pictures; rows where `mask` is False hold zeros and mean nothing."""

    features: Float[Tensor, "K R D"]
    boxes: Float[Tensor, "K R 4"]
    """x1 y1 x2 y2 in pixels of the picture given, within it."""
    labels: Int64[Tensor, "K R"]
    """Indices into the extractor's `labels`."""
    confidence: Float[Tensor, "K R"]
    """Between 0 and 1, best first; 1 for the whole picture."""
    mask: Bool[Tensor, "K R"]

    @property
    def regions(self) -> Regions:
        """What the matching models read of them."""
        return Regions(vectors=self.features, mask=self.mask)


class Extractor(nn.Module, ABC):
    """Finds regions in pictures and describes each by one vector."""

    sees: ClassVar[bool] = True
    """False where features came from elsewhere and no picture can be looked at: `extract` raises then."""
    feature_dim: int
    num_regions: int
    """R: every picture gets this many rows, masked where it has fewer regions."""
    labels: tuple[str, ...]
    digest: str
    """Names weights and configuration together; kept beside every feature made with them."""

    @abstractmethod
    def extract(self, pictures: Sequence[PIL.Image.Image]) -> Detections:
        """Regions of upright RGB pictures of any sizes; what a picture gets never depends on its batch."""
