"""Two-stage detectors of other libraries as extractors: the common part, around the steps that differ."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import PIL.Image
import torch
from jaxtyping import Float
from torch import Tensor, nn

from models.extractors.base import PICTURE, Detections, Extractor
from models.extractors.config import check_ranges
from models.extractors.region_selection import select_regions

TWO_STAGE_MIN_SIDE = 1 / 50  # times the square root of the picture's area: 16 pixels at 800


@dataclass(frozen=True, kw_only=True)
class TwoStageConfig:
    """The choice of regions; fields as in faster_rcnn.DetectorConfig."""

    num_regions: int = 36
    whole_picture: bool = True
    class_overlap: float = 0.3
    any_overlap: float = 0.7

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid number."""
        check_ranges(self, ["num_regions"], ["class_overlap", "any_overlap"])


class FirstStage(NamedTuple):
    """The output of the first stage for one picture."""

    maps: Any
    """Feature maps, in the form of the network's later parts."""
    size: tuple[int, int]
    """Height and width of the resized picture."""
    proposals: Float[Tensor, "P 4"]
    """Boxes in pixels of the resized picture."""


class SecondStage(NamedTuple):
    """The output of the second stage for the P proposals of one picture."""

    probabilities: Float[Tensor, "P C"]
    """For the C classes, without background."""
    refined: Float[Tensor, "P C 4"]
    """Each box corrected for each class."""


class TwoStageNetwork(nn.Module, ABC):
    """A network that proposes boxes, then computes each box's feature, class and correction."""

    feature_dim: int

    @abstractmethod
    def propose(self, picture: PIL.Image.Image) -> FirstStage:
        """Maps and proposals of an upright RGB picture."""

    @abstractmethod
    def box_features(self, first: FirstStage, boxes: Float[Tensor, "P 4"]) -> Float[Tensor, "P D"]:
        """One feature vector per box."""

    @abstractmethod
    def classify(self, first: FirstStage, features: Float[Tensor, "P D"]) -> SecondStage:
        """Class probabilities and corrections of the proposals, which have these features."""


class TwoStageDetector(Extractor):
    """An extractor whose regions are boxes corrected for their most probable class, with features of these boxes."""

    def __init__(self, network: TwoStageNetwork, classes: tuple[str, ...], config: TwoStageConfig, digest: str) -> None:
        super().__init__()
        self.network, self.config, self.digest = network, config, digest
        self.feature_dim = network.feature_dim
        self.num_regions = config.num_regions
        self.labels = (*classes, PICTURE)

    @torch.no_grad()
    def extract(self, pictures: Sequence[PIL.Image.Image]) -> Detections:
        """Regions of upright RGB pictures, processed one by one so that none is padded."""
        return self.joined([self._extract(picture) for picture in pictures])

    def _extract(self, picture: PIL.Image.Image) -> Detections:
        first = self.network.propose(picture)
        probabilities, refined = self.network.classify(first, self.network.box_features(first, first.proposals))
        likeliest = probabilities.argmax(1)
        boxes = refined[torch.arange(len(refined), device=refined.device), likeliest]
        regions = select_regions(boxes, probabilities, first.size, self.config, TWO_STAGE_MIN_SIDE)
        features = regions.boxes.new_zeros(*regions.mask.shape, self.feature_dim)
        features[regions.mask] = self.network.box_features(first, regions.boxes[regions.mask])
        zoom = regions.boxes.new_tensor([picture.width / first.size[1], picture.height / first.size[0]] * 2)
        return Detections(features=features, **{**regions.tensors(), "boxes": regions.boxes * zoom})
