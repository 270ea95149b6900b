"""The cells of a grid as regions, as in SMAN's paper, instead of a detector's boxes.

The paper states 448 pixels and 7x7 cells of a map of stride 32, which is a contradiction: here 224 pixels
give 7x7; `side` 448 gives 14x14.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import PIL.Image
import torch
from jaxtyping import Float
from torch import Tensor

from models.batches import tiles
from models.extractors.backbones.base import BACKBONE_FEATURE_DIM, STRIDE, Backbone
from models.extractors.backbones.registry import build_backbone
from models.extractors.base import Detections, Extractor
from models.extractors.config import check_ranges
from models.extractors.faster_rcnn.extractor import WEIGHTS_FILE, load_detector
from models.extractors.resize import stack_resized

CELL = "cell"  # the label of every region


@dataclass(frozen=True, kw_only=True)
class GridConfig:
    """The configuration of a grid: everything but its backbone's weights."""

    side: int = 224
    """Pixels per side to which every picture is stretched; a multiple of 32."""
    batch: int = 32
    """Pictures in one forward pass."""

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid number."""
        check_ranges(self, ["side", "batch"])
        if self.side % STRIDE:
            raise ValueError(f"the side of a grid is a multiple of {STRIDE} pixels, not {self.side}")


class GridExtractor(Extractor):
    """The cells of the backbone's last map as regions, row by row from the top left."""

    labels = (CELL,)
    feature_dim = BACKBONE_FEATURE_DIM

    def __init__(self, config: GridConfig, backbone: Backbone, digest: str = "untrained") -> None:
        super().__init__()
        self.config, self.backbone, self.digest = config, backbone, digest
        self.cells = config.side // STRIDE
        self.num_regions = self.cells**2

    @torch.no_grad()
    def extract(self, pictures: Sequence[PIL.Image.Image]) -> Detections:
        """All cells of upright RGB pictures; none is masked and all have confidence 1."""
        parts = [self._extract(pictures[tile]) for tile in tiles(len(pictures), self.config.batch)]
        return self.joined(parts)

    def _extract(self, pictures: Sequence[PIL.Image.Image]) -> Detections:
        device = next(self.backbone.parameters()).device
        pixels = stack_resized(pictures, (self.config.side, self.config.side)).to(device)
        features = self.backbone.widen(self.backbone(self.backbone.normalise(pixels)).stride32)
        sizes = torch.tensor([picture.size for picture in pictures], dtype=torch.float32, device=device)
        boxes = self._unit_boxes(device) * sizes.repeat(1, 2).unsqueeze(1)
        shape = boxes.shape[:2]
        return Detections(
            features=features.flatten(2).mT.contiguous(),
            boxes=boxes,
            labels=torch.zeros(shape, dtype=torch.int64, device=device),
            confidence=torch.ones(shape, device=device),
            mask=torch.ones(shape, dtype=torch.bool, device=device),
        )

    def _unit_boxes(self, device: torch.device) -> Float[Tensor, "R 4"]:
        """Boxes of the cells of a picture that is one wide and one high."""
        start = torch.arange(self.cells, device=device) / self.cells
        end = torch.arange(1, self.cells + 1, device=device) / self.cells
        rows, columns = (edge.flatten() for edge in torch.meshgrid(start, start, indexing="ij"))
        bottoms, rights = (edge.flatten() for edge in torch.meshgrid(end, end, indexing="ij"))
        return torch.stack([columns, rows, rights, bottoms], 1)


def load_grid(weights: Path, device: str = "cpu", config: GridConfig = GridConfig()) -> GridExtractor:
    """A grid on the backbone in a detector's folder, or on a MobileNetV2 from a file of weights."""
    backbone = load_detector(weights).backbone if weights.is_dir() else build_backbone("mobilenet-v2", weights)
    file = weights / WEIGHTS_FILE if weights.is_dir() else weights
    identity = json.dumps(["grid", asdict(config)], sort_keys=True).encode() + file.read_bytes()
    grid = GridExtractor(config, backbone, hashlib.sha256(identity).hexdigest()[:32])
    grid.eval().requires_grad_(False)
    return grid.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]
