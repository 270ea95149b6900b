"""Bottom-up attention's extractor (Anderson et al., CVPR 2018), whose features the papers of matching were trained on.

Equal to the authors' Caffe code in what it computes: sizes, colours, anchors, proposals, pooling and the choice of
regions. Its weights are the public PyTorch conversions of theirs; a folder holds such a file, the two lists of names
that came with the Caffe code, and config.json: {"kind": "bottom-up", "weights": "NAME OF THE FILE"}.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn.functional import pad

from models.batches import Rows
from models.extractors.base import Detections, Extractor
from models.extractors.bottom_up.caffe_resnet import SMALLEST
from models.extractors.bottom_up.network import Network
from models.extractors.bottom_up.proposals import closed, proposals
from models.extractors.bottom_up.weights import fill
from models.extractors.config import fingerprint, read_config
from models.extractors.region_selection import between, confidences
from models.safe_load.weight_files import read_weights

MEAN = (102.9801, 115.9465, 122.7717)  # blue, green and red of ImageNet's pictures
SHORT_SIDE, LONG_SIDE = 600, 1000  # pixels looked at
OVERLAP = 0.3
THRESHOLD = 0.2


@dataclass(frozen=True, kw_only=True)
class BottomUpConfig:
    """What an extractor is besides its weights and names; the published features have 36 boxes, or 10 to 100."""

    weights: str
    """A file in the folder: .pkl or what torch.save wrote."""
    objects: str = "objects_vocab.txt"
    attributes: str = "attributes_vocab.txt"
    min_boxes: int = 36
    max_boxes: int = 36
    width: int = 64
    """Channels of the stem; every other width is a multiple."""
    blocks: tuple[int, ...] = (3, 4, 23, 3)
    """Blocks of the four stages: ResNet-101."""


@dataclass(frozen=True)
class Attributes(Rows):
    """The likeliest attribute of each region; zeros where a region is masked."""

    labels: Int64[Tensor, "K R"]
    """Indices into the extractor's `attributes`."""
    confidence: Float[Tensor, "K R"]
    """Between 0 and 1; the rest of 1 is other attributes, or none."""


class BottomUp(Extractor):
    """ResNet-C4 Faster R-CNN with an attribute head; `num_regions` is the largest number of boxes."""

    attributes: tuple[str, ...]

    def __init__(self, config: BottomUpConfig, objects: tuple[str, ...], attributes: tuple[str, ...]) -> None:
        super().__init__()
        self.config = config
        self.network = Network(config.width, config.blocks, len(objects), len(attributes))
        self.feature_dim = self.network.feature_dim
        self.num_regions = config.max_boxes
        self.labels, self.attributes = objects, attributes
        self.digest = "untrained"

    def extract(self, pictures: Sequence[PIL.Image.Image]) -> Detections:
        """Regions of upright RGB pictures, the surest first (the authors leave 10 to 100 as they were proposed)."""
        return self.describe(pictures)[0]

    @torch.no_grad()
    def describe(self, pictures: Sequence[PIL.Image.Image]) -> tuple[Detections, Attributes]:
        """Regions and their attributes, one picture at a time as the authors' code."""
        found = [self._describe(picture) for picture in pictures]
        return Detections.cat([regions for regions, _ in found]), Attributes.cat([said for _, said in found])

    def _describe(self, picture: PIL.Image.Image) -> tuple[Detections, Attributes]:
        pixels, scale, zoom = prepared(picture, next(self.parameters()))
        map_ = self.network.backbone(pixels)
        height, width = pixels.shape[2:]
        rois = proposals(*self.network.propose(map_), (height, width), scale)
        features = self.network.describe(map_, rois)
        objects = self.network.objects(features).softmax(1)
        boxes = rois / zoom
        confidence = confidences(closed(boxes), objects[:, 1:], OVERLAP)
        chosen = between(confidence, THRESHOLD, self.config.min_boxes, self.config.max_boxes)
        chosen = chosen[confidence[chosen].argsort(descending=True, stable=True)]
        return self._padded(features[chosen], boxes[chosen], objects[chosen], confidence[chosen])

    def _padded(
        self,
        features: Float[Tensor, "N D"],
        boxes: Float[Tensor, "N 4"],
        objects: Float[Tensor, "N C"],
        confidence: Float[Tensor, " N"],
    ) -> tuple[Detections, Attributes]:
        """One picture's regions and attributes, to `num_regions` rows."""
        said = self.network.attribute_logits(features, objects.argmax(1)).softmax(1)[:, 1:].max(1)
        mask = torch.ones_like(confidence, dtype=torch.bool)
        regions = (features, boxes, objects[:, 1:].argmax(1), confidence, mask)
        return Detections(*map(self._full, regions)), Attributes(*map(self._full, (said.indices, said.values)))

    def _full(self, rows: Tensor) -> Tensor:
        """Zeros after the rows, and a first axis for the picture."""
        return pad(rows, (0, 0) * (rows.dim() - 1) + (0, self.num_regions - len(rows)))[None]


def prepared(
    picture: PIL.Image.Image, like: Float[Tensor, "..."]
) -> tuple[Float[Tensor, "1 3 H W"], float, Float[Tensor, "4"]]:
    """Centred BGR pixels as they are looked at, by how much they were enlarged, and the same for x y x y.

    All of the type and on the device of `like`. The short side becomes 600 pixels, or less where the long one would
    pass 1000. A side that would be under three pixels becomes three; only then do the two enlargements differ.
    """
    short, long = sorted(picture.size)
    scale = SHORT_SIDE / short
    if round(scale * long) > LONG_SIDE:
        scale = LONG_SIDE / long
    across, down = (max(scale, SMALLEST / side) for side in picture.size)
    blue_green_red = torch.from_numpy(np.array(picture)).to(like.device).flip(2).permute(2, 0, 1)
    centred = blue_green_red[None].to(like.dtype) - like.new_tensor(MEAN)[:, None, None]
    return resized(centred, down, across), scale, like.new_tensor([across, down] * 2)


def resized(pixels: Float[Tensor, "1 3 H W"], down: float, across: float) -> Float[Tensor, "1 3 h w"]:
    """Bilinear, as OpenCV's resize with two factors: halves of pixels rounded to even, the factors as given.

    Pixel i of the result is at (i + 1/2) / factor - 1/2 of the source; nothing is averaged when it shrinks.
    """
    size = [round(pixels.shape[2] * down), round(pixels.shape[3] * across)]
    looked_at: Tensor = torch.ops.aten.upsample_bilinear2d.default(pixels, size, False, down, across)
    return looked_at


def read_names(file: Path) -> tuple[str, ...]:
    """Names, one a line; of synonyms the part before the first comma."""
    return tuple(line.partition(",")[0].strip() for line in file.read_text(encoding="utf-8").splitlines())


def load_bottom_up(folder: Path, device: str = "cpu", **settings: Any) -> BottomUp:
    """The extractor in `folder`; `settings` replace fields of its configuration, and change its digest."""
    fields = {**read_config(folder), **settings}
    if "blocks" in fields:
        fields["blocks"] = tuple(fields["blocks"])
    config = BottomUpConfig(**fields)
    objects, attributes = (read_names(folder / name) for name in (config.objects, config.attributes))
    extractor = BottomUp(config, objects, attributes)
    fill(extractor.network, read_weights(folder / config.weights))
    identity = {**asdict(config), "weights": None, "objects": objects, "attributes": attributes}
    extractor.digest = fingerprint("bottom-up", identity, extractor.network)
    return extractor.eval().requires_grad_(False).to(device)
