"""The interface of every extractor, which turns pictures into regions, and the batch of regions it returns."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import PIL.Image
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from models.batches import Rows

PICTURE = "picture"  # label of the region that is the whole picture
REGION = "region"  # label of a region whose class is not known


@dataclass(frozen=True)
class Detections(Rows):
    """Regions of pictures with their features; rows where `mask` is False are zeros."""

    features: Float[Tensor, "K R D"]
    boxes: Float[Tensor, "K R 4"]
    """x1 y1 x2 y2 in pixels of the picture, within it."""
    labels: Int64[Tensor, "K R"]
    """Indices into the extractor's `labels`."""
    confidence: Float[Tensor, "K R"]
    """Between 0 and 1, the highest first; 1 for the whole picture."""
    mask: Bool[Tensor, "K R"]
    """True where a region is real."""


class Extractor(nn.Module, ABC):
    """A model that finds regions in pictures and describes each by one vector."""

    accepts_pictures: ClassVar[bool] = True
    """False if features come from elsewhere: then `extract` raises."""
    feature_dim: int
    """The width D of a feature."""
    num_regions: int
    """R: every picture gets this many rows, masked where it has fewer regions."""
    labels: tuple[str, ...]
    """The names that `Detections.labels` are indices into."""
    digest: str
    """Identifies weights and configuration; stored with every feature made with them."""

    def joined(self, parts: Sequence[Detections]) -> Detections:
        """The regions of pictures from those of batches, which may be none."""
        if parts:
            return Detections.cat(parts)
        device = next((weights.device for weights in self.parameters()), torch.device("cpu"))
        empty = torch.zeros(0, self.num_regions, device=device)
        features, boxes = (empty[:, :, None].expand(-1, -1, count) for count in (self.feature_dim, 4))
        return Detections(features, boxes, empty.long(), empty, empty.bool())

    @abstractmethod
    def extract(self, pictures: Sequence[PIL.Image.Image]) -> Detections:
        """The regions of upright RGB pictures of any number and sizes; none depends on others in its batch."""
