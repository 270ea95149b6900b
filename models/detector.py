"""Faster R-CNN on MobileNetV2: pixels -> boxes, classes and one feature vector a region."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import PIL.Image
import torch
from jaxtyping import Float, UInt8
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.faster_rcnn import TwoMLPHead
from torchvision.models.detection.image_list import ImageList
from torchvision.models.detection.roi_heads import RoIHeads
from torchvision.models.detection.rpn import RegionProposalNetwork, RPNHead
from torchvision.ops import FeaturePyramidNetwork, MultiScaleRoIAlign, clip_boxes_to_image

from models.extractor import PICTURE, Detections, Extractor
from models.mobilenet import CHANNELS, FEATURE_DIM, STRIDE, Maps, MobileNetV2, normalised
from models.regionfeatures import RegionFeatures
from models.selection import choose, distinct
from models.sizes import fitted, stacked

WEIGHTS_FILE = "model.safetensors"
CONFIG_FILE = "config.json"
ANCHOR_SIDES = ((24, 48), (80, 128), (192, 320))  # pixels, at strides 8, 16 and 32
ANCHOR_ASPECTS = (0.5, 1.0, 2.0)


@dataclass(frozen=True, kw_only=True)
class DetectorConfig:
    """All that a detector is besides its weights."""

    labels: tuple[str, ...]
    """Classes, without background and without the whole picture."""
    num_regions: int = 36
    whole_picture: bool = True
    feature: Literal["region", "map"] = "map"
    """The last stage run on each region, or run once and pooled (docs/extractor.md)."""
    side: int = 448
    """Root of the number of pixels that boxes are looked for in."""
    neck_width: int = 128
    head_width: int = 256
    num_proposals: int = 200
    batch: int = 8
    """Pictures in one pass."""

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "DetectorConfig":
        """A configuration as `config.json` holds it; TypeError names an unknown field."""
        return cls(**{**values, "labels": tuple(values["labels"])})


class Predictor(nn.Module):
    """Class logits, and box corrections that all classes share: rare classes never learn their own."""

    def __init__(self, width: int, num_classes: int) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.classes = nn.Linear(width, num_classes)
        self.corrections = nn.Linear(width, 4)

    def forward(self, x: Float[Tensor, "N width"]) -> tuple[Float[Tensor, "N C"], Float[Tensor, "N C4"]]:
        return self.classes(x), self.corrections(x).repeat(1, self.num_classes)


class FasterRcnn(Extractor):
    """Region proposals and class and box heads on a feature pyramid over the backbone's maps."""

    def __init__(self, config: DetectorConfig, backbone: MobileNetV2 | None = None) -> None:
        super().__init__()
        self.config = config
        self.feature_dim = FEATURE_DIM
        self.num_regions = config.num_regions
        self.labels = (*config.labels, PICTURE)
        self.digest = "untrained"
        self.backbone = backbone or MobileNetV2()
        self.neck = FeaturePyramidNetwork(list(CHANNELS.values()), config.neck_width)
        self.proposer = _proposer(config)
        self.heads = _heads(config)
        self.describe = RegionFeatures(config.feature)

    def losses(
        self, pixels: UInt8[Tensor, "K 3 H W"], targets: list[dict[str, Tensor]]
    ) -> dict[str, Float[Tensor, ""]]:
        """Losses of the proposer and the heads; targets as torchvision's, label 0 is background."""
        with torch.no_grad():
            maps = self.backbone(normalised(pixels))
        pyramid = self._pyramid(maps)
        images = _image_list(pixels)
        proposals, proposer_losses = self.proposer(images, pyramid, targets)
        _, head_losses = self.heads(pyramid, proposals, images.image_sizes, targets)
        return {**proposer_losses, **head_losses}

    @torch.no_grad()
    def extract(self, pictures: Sequence[PIL.Image.Image]) -> Detections:
        """Regions of RGB pictures; pictures looked at in the same size share a pass and never any padding."""
        parts: list[Detections] = []
        order: list[int] = []
        groups: dict[tuple[tuple[int, int], ...], list[int]] = {}
        for place, picture in enumerate(pictures):
            groups.setdefault(self._sizes(picture), []).append(place)
        for sizes, places in groups.items():
            for start in range(0, len(places), self.config.batch):
                batch = places[start : start + self.config.batch]
                parts.append(self._extract_alike([pictures[place] for place in batch], *sizes))
                order += batch
        return Detections.cat(parts)[torch.tensor(order).argsort()]

    def _sizes(self, picture: PIL.Image.Image) -> tuple[tuple[int, int], ...]:
        side = self.config.side
        return tuple(fitted(*picture.size, scale, STRIDE) for scale in (side, side / 2))

    def _extract_alike(
        self, pictures: list[PIL.Image.Image], size: tuple[int, int], half_size: tuple[int, int]
    ) -> Detections:
        pixels = stacked(pictures, size).to(self._device())
        maps = self.backbone(normalised(pixels))
        half_maps = self.backbone(normalised(stacked(pictures, half_size).to(self._device())))
        found = self._find(maps, pixels)
        features = self.describe(self.backbone, maps, half_maps, found.boxes, found.mask, size)
        scale = [[(p.width / size[0], p.height / size[1]) * 2 for p in pictures]]
        scales = found.boxes.new_tensor(scale).reshape(-1, 1, 4)
        return replace(found, features=features, boxes=found.boxes * scales)

    def _find(self, maps: Maps, pixels: UInt8[Tensor, "K 3 H W"]) -> Detections:
        """Regions in pixels of `pixels`, without features."""
        pyramid = self._pyramid(maps)
        images = _image_list(pixels)
        proposals, _ = self.proposer(images, pyramid)
        pooled = self.heads.box_roi_pool(pyramid, proposals, images.image_sizes)
        logits, corrections = self.heads.box_predictor(self.heads.box_head(pooled))
        counts = [len(boxes) for boxes in proposals]
        refined = self.heads.box_coder.decode(corrections[:, :4].contiguous(), proposals)[:, 0].split(counts)
        probabilities = logits.softmax(1)[:, 1:].split(counts)
        size = (pixels.shape[2], pixels.shape[3])
        chosen = [self._choose(*each, size) for each in zip(refined, probabilities, strict=True)]
        return Detections.cat(chosen)
