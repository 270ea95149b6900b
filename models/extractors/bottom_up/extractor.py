"""Bottom-up attention's extractor (Anderson et al., CVPR 2018), on whose features the published matchers were trained.

It follows the authors' Caffe code: sizes, colours, anchors, proposals, pooling and the choice of regions.
Its weights are the public PyTorch conversions of theirs; a folder holds such a file, the two lists of names
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
from models.extractors.bottom_up.caffe_resnet import MIN_INPUT_SIDE
from models.extractors.bottom_up.network import BottomUpNetwork
from models.extractors.bottom_up.proposals import include_last_pixel, propose_boxes
from models.extractors.bottom_up.weights import load_bottom_up_weights
from models.extractors.config import check_ranges, config_of, digest_of_extractor, read_config
from models.extractors.region_selection import box_confidences, select_by_threshold
from models.safe_load.weight_files import read_weights

MEAN_PIXEL = (102.9801, 115.9465, 122.7717)  # blue, green and red of ImageNet's pictures
SHORT_SIDE, LONG_SIDE = 600, 1000  # pixels of the resized picture
NUM_STAGES = 4
CLASS_OVERLAP = 0.3
CONFIDENCE_THRESHOLD = 0.2


@dataclass(frozen=True, kw_only=True)
class BottomUpConfig:
    """The configuration of the extractor; the published features have 36 boxes a picture, or 10 to 100."""

    weights: str
    """A file in the folder, .pkl or written by torch.save."""
    objects: str = "objects_vocab.txt"
    """A file in the folder with the names of the object classes, one a line."""
    attributes: str = "attributes_vocab.txt"
    min_boxes: int = 36
    max_boxes: int = 36
    width: int = 64
    """Channels of the stem; every other width is a multiple."""
    blocks: tuple[int, ...] = (3, 4, 23, 3)
    """Blocks of the four stages: ResNet-101."""

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid number."""
        check_ranges(self, ["min_boxes", "max_boxes", "width"])
        if self.min_boxes > self.max_boxes:
            raise ValueError(f"min_boxes is at most max_boxes, {self.max_boxes}, not {self.min_boxes}")
        if len(self.blocks) != NUM_STAGES or min(self.blocks) < 1:
            raise ValueError(f"blocks are those of {NUM_STAGES} stages, not {self.blocks}")


@dataclass(frozen=True)
class Attributes(Rows):
    """The most probable attribute of each region; zeros where a region is masked."""

    labels: Int64[Tensor, "K R"]
    """Indices into the extractor's `attributes`."""
    confidence: Float[Tensor, "K R"]
    """Between 0 and 1; the rest of 1 belongs to other attributes and to "none"."""


class BottomUpExtractor(Extractor):
    """ResNet-C4 Faster R-CNN with an attribute head; `num_regions` is the largest number of boxes."""

    attributes: tuple[str, ...]

    def __init__(self, config: BottomUpConfig, objects: tuple[str, ...], attributes: tuple[str, ...]) -> None:
        super().__init__()
        self.config = config
        self.network = BottomUpNetwork(config.width, config.blocks, len(objects), len(attributes))
        self.feature_dim = self.network.feature_dim
        self.num_regions = config.max_boxes
        self.labels, self.attributes = objects, attributes
        self.digest = "untrained"

    def extract(self, pictures: Sequence[PIL.Image.Image]) -> Detections:
        """Regions of upright RGB pictures, by confidence (the authors keep 10 to 100 in the order of proposals)."""
        return self.extract_with_attributes(pictures)[0]

    @torch.no_grad()
    def extract_with_attributes(self, pictures: Sequence[PIL.Image.Image]) -> tuple[Detections, Attributes]:
        """Regions and their attributes, one picture at a time as in the authors' code."""
        parts = [self._extract(picture) for picture in pictures]
        detections = self.joined([regions for regions, _ in parts])
        if not parts:
            return detections, Attributes(detections.labels, detections.confidence)
        return detections, Attributes.cat([attributes for _, attributes in parts])

    def _extract(self, picture: PIL.Image.Image) -> tuple[Detections, Attributes]:
        pixels, scale, zoom = prepare_pixels(picture, next(self.parameters()))
        map_ = self.network.backbone(pixels)
        height, width = pixels.shape[2:]
        rois = propose_boxes(*self.network.propose(map_), (height, width), scale)
        features = self.network.box_features(map_, rois)
        objects = self.network.objects(features).softmax(1)
        boxes = rois / zoom
        confidence = box_confidences(include_last_pixel(boxes), objects[:, 1:], CLASS_OVERLAP)
        limits = self.config.min_boxes, self.config.max_boxes
        selected = select_by_threshold(confidence, CONFIDENCE_THRESHOLD, *limits)
        selected = selected[confidence[selected].argsort(descending=True, stable=True)]
        return self._padded(features[selected], boxes[selected], objects[selected], confidence[selected])

    def _padded(
        self,
        features: Float[Tensor, "N D"],
        boxes: Float[Tensor, "N 4"],
        objects: Float[Tensor, "N C"],
        confidence: Float[Tensor, " N"],
    ) -> tuple[Detections, Attributes]:
        """One picture's regions and attributes, padded to `num_regions` rows."""
        best = self.network.attribute_logits(features, objects.argmax(1)).softmax(1)[:, 1:].max(1)
        mask = torch.ones_like(confidence, dtype=torch.bool)
        regions = (features, boxes, objects[:, 1:].argmax(1), confidence, mask)
        attributes = (best.indices, best.values)
        return Detections(*map(self._pad_rows, regions)), Attributes(*map(self._pad_rows, attributes))

    def _pad_rows(self, rows: Tensor) -> Tensor:
        """The rows with zeros after them, and a first axis for the picture."""
        return pad(rows, (0, 0) * (rows.dim() - 1) + (0, self.num_regions - len(rows)))[None]


def prepare_pixels(
    picture: PIL.Image.Image, like: Float[Tensor, "..."]
) -> tuple[Float[Tensor, "1 3 H W"], float, Float[Tensor, "4"]]:
    """Resized, centred BGR pixels, the scale of the picture, and the scales of a box's x y x y.

    Tensors have the type and device of `like`. The short side becomes 600 pixels, or less where the long one would
    pass 1000. A side that would be under three pixels becomes three; only then do the factors differ.
    """
    short, long = sorted(picture.size)
    scale = SHORT_SIDE / short
    if round(scale * long) > LONG_SIDE:
        scale = LONG_SIDE / long
    across, down = (max(scale, MIN_INPUT_SIDE / side) for side in picture.size)
    blue_green_red = torch.from_numpy(np.array(picture)).to(like.device).flip(2).permute(2, 0, 1)
    centred = blue_green_red[None].to(like.dtype) - like.new_tensor(MEAN_PIXEL)[:, None, None]
    return resize_bilinear(centred, down, across), scale, like.new_tensor([across, down] * 2)


def resize_bilinear(pixels: Float[Tensor, "1 3 H W"], down: float, across: float) -> Float[Tensor, "1 3 h w"]:
    """Pixels resized as by OpenCV with two factors: sides rounded half to even, the factors unchanged.

    Pixel i of the result is at (i + 1/2) / factor - 1/2 of the source; shrinking does not average.
    """
    size = [round(pixels.shape[2] * down), round(pixels.shape[3] * across)]
    resized: Tensor = torch.ops.aten.upsample_bilinear2d.default(pixels, size, False, down, across)
    return resized


def read_class_names(file: Path) -> tuple[str, ...]:
    """The class names in a file, one a line; of comma-separated synonyms the first."""
    return tuple(line.partition(",")[0].strip() for line in file.read_text(encoding="utf-8").splitlines())


def load_bottom_up(folder: Path, device: str = "cpu", **settings: Any) -> BottomUpExtractor:
    """The extractor in `folder`; `settings` replace fields of its configuration, and change its digest."""
    config = config_of(BottomUpConfig, folder, {**read_config(folder), **settings})
    objects, attributes = (read_class_names(folder / name) for name in (config.objects, config.attributes))
    extractor = BottomUpExtractor(config, objects, attributes)
    load_bottom_up_weights(extractor.network, read_weights(folder / config.weights))
    identity = {**asdict(config), "weights": None, "objects": objects, "attributes": attributes}
    extractor.digest = digest_of_extractor("bottom-up", identity, extractor.network)
    return extractor.eval().requires_grad_(False).to(device)
