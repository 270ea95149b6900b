"""From a detector's boxes and class probabilities to the regions of one picture."""

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torch.nn.functional import pad
from torchvision.ops import clip_boxes_to_image, remove_small_boxes

from models.batches import Rows
from models.extractors.region_selection import choose, distinct

SMALLEST = 1 / 14  # of the side of a square as large as the picture: one cell of the last map, at 448 pixels


@runtime_checkable
class Choosing(Protocol):
    """What a detector's configuration says of the choice."""

    @property
    def num_regions(self) -> int: ...
    @property
    def whole_picture(self) -> bool: ...
    @property
    def class_overlap(self) -> float: ...
    @property
    def any_overlap(self) -> float: ...


@dataclass(frozen=True)
class Places(Rows):
    """Detections before they have features."""

    boxes: Float[Tensor, "K R 4"]
    labels: Int64[Tensor, "K R"]
    confidence: Float[Tensor, "K R"]
    mask: Bool[Tensor, "K R"]


def places(
    boxes: Float[Tensor, "P 4"],
    probabilities: Float[Tensor, "P C"],
    size: tuple[int, int],
    config: Choosing,
    smallest: float = SMALLEST,
) -> Places:
    """The regions of one picture of `size` (height, width) among its refined boxes, padded to `num_regions`.

    The whole picture, if wanted, comes first and has the label after the C classes. Boxes with a side under `smallest`
    of the side of a square as large as the picture are left out.
    """
    boxes = clip_boxes_to_image(boxes, size)
    kept = remove_small_boxes(boxes, smallest * math.sqrt(size[0] * size[1]))
    kept = kept[distinct(boxes[kept], probabilities[kept], config.any_overlap)]
    boxes, probabilities = boxes[kept], probabilities[kept]
    count = config.num_regions - config.whole_picture
    indices, labels, confidence = choose(boxes, probabilities, count, config.class_overlap)
    boxes = boxes[indices]
    if config.whole_picture:
        boxes = torch.cat([boxes.new_tensor([[0, 0, size[1], size[0]]]), boxes])
        labels = pad(labels, (1, 0), value=probabilities.shape[1])
        confidence = pad(confidence, (1, 0), value=1.0)
    missing = config.num_regions - len(boxes)
    mask = pad(torch.ones_like(labels, dtype=torch.bool), (0, missing))
    padded = (pad(boxes, (0, 0, 0, missing)), pad(labels, (0, missing)), pad(confidence, (0, missing)), mask)
    return Places(*(each[None] for each in padded))
