"""Other people's two-stage detectors as extractors: one flow around what theirs do differently."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import PIL.Image
import torch
from jaxtyping import Float
from torch import Tensor, nn

from models.extractors.base import PICTURE, Detections, Extractor
from models.extractors.places import places

SMALLEST = 1 / 50  # of the side of a square as large as the picture: 16 pixels at 800


@dataclass(frozen=True, kw_only=True)
class TwoStageConfig:
    """Which of the boxes become regions; as in DetectorConfig."""

    num_regions: int = 36
    whole_picture: bool = True
    class_overlap: float = 0.3
    any_overlap: float = 0.7


class Seen(NamedTuple):
    """A picture after the first stage."""

    maps: Any
    """Feature maps, as the network's own later parts take them."""
    size: tuple[int, int]
    """Height and width looked at."""
    proposals: Float[Tensor, "P 4"]
    """Boxes in pixels looked at."""


class Judged(NamedTuple):
    """What the second stage says of proposals."""

    probabilities: Float[Tensor, "P C"]
    """Of classes, without background."""
    refined: Float[Tensor, "P C 4"]
    """Where the thing is if it is of that class."""


class TwoStage(nn.Module, ABC):
    """A network that proposes boxes and then describes, names and corrects each."""

    feature_dim: int

    @abstractmethod
    def look(self, picture: PIL.Image.Image) -> Seen:
        """Maps and proposals of an upright RGB picture."""

    @abstractmethod
    def describe(self, seen: Seen, boxes: Float[Tensor, "P 4"]) -> Float[Tensor, "P D"]:
        """One vector a box."""

    @abstractmethod
    def judge(self, seen: Seen, features: Float[Tensor, "P D"]) -> Judged:
        """Classes and corrections of the proposals that have these features."""


class TwoStageDetector(Extractor):
    """Regions are the boxes corrected for their likeliest class, and their features are taken anew from there."""

    def __init__(self, network: TwoStage, classes: tuple[str, ...], config: TwoStageConfig, digest: str) -> None:
        super().__init__()
        self.network, self.config, self.digest = network, config, digest
        self.feature_dim = network.feature_dim
        self.num_regions = config.num_regions
        self.labels = (*classes, PICTURE)

    @torch.no_grad()
    def extract(self, pictures: Sequence[PIL.Image.Image]) -> Detections:
        """Regions of upright RGB pictures, looked at one by one so that none is padded for another's sake."""
        return Detections.cat([self._extract(picture) for picture in pictures])

    def _extract(self, picture: PIL.Image.Image) -> Detections:
        seen = self.network.look(picture)
        probabilities, refined = self.network.judge(seen, self.network.describe(seen, seen.proposals))
        likeliest = probabilities.argmax(1)
        boxes = refined[torch.arange(len(refined), device=refined.device), likeliest]
        found = places(boxes, probabilities, seen.size, self.config, SMALLEST)
        features = found.boxes.new_zeros(*found.mask.shape, self.feature_dim)
        features[found.mask] = self.network.describe(seen, found.boxes[found.mask])
        zoom = found.boxes.new_tensor([picture.width / seen.size[1], picture.height / seen.size[0]] * 2)
        return Detections(features=features, **{**found.tensors(), "boxes": found.boxes * zoom})
