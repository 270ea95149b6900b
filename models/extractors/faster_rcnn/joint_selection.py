"""The choice of regions among the boxes of two detectors: a one-stage detector's first, then proposals.

A one-stage detector's confident boxes fit better than proposals, but it finds only its trained classes. Class-agnostic
proposals fill the other places, so that objects of no class also have regions.
"""

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad
from torchvision.ops import clip_boxes_to_image, nms, remove_small_boxes

from models.batches import Rows


@runtime_checkable
class JointSelectionConfig(Protocol):
    """The part of a detector's configuration that concerns the choice."""

    @property
    def num_regions(self) -> int: ...
    @property
    def whole_picture(self) -> bool: ...
    @property
    def one_stage_overlap(self) -> float: ...
    @property
    def any_overlap(self) -> float: ...
    @property
    def min_side(self) -> float: ...


@dataclass(frozen=True)
class JointRegions(Rows):
    """Regions with the class scores of the one-stage detector; rows where `mask` is False are zeros."""

    boxes: Float[Tensor, "K R 4"]
    posteriors: Float[Tensor, "K R C"]
    """Zeros for the whole picture, and for regions that only the proposals found."""
    mask: Bool[Tensor, "K R"]


def select_joint_regions(
    one_stage: tuple[Float[Tensor, "N 4"], Float[Tensor, "N C"]],
    proposals: tuple[Float[Tensor, "P 4"], Float[Tensor, " P"]],
    size: tuple[int, int],
    config: JointSelectionConfig,
) -> JointRegions:
    """The regions of one picture of `size` (height, width), padded to `num_regions` rows.

    `one_stage` are boxes with the scores of C classes, `proposals` boxes with the probability that they hold an object.
    The former are ranked by their best score, after suppression at `one_stage_overlap`; the latter follow. Dropped are
    boxes that overlap a better one by more than `any_overlap`, whatever the classes, and boxes with a side under
    `min_side` times the square root of the picture's area. The whole picture, if wanted, comes first.
    """
    first = _surviving(*one_stage, config.one_stage_overlap, size)
    order = proposals[1].argsort(descending=True, stable=True)
    boxes = torch.cat([first[0], clip_boxes_to_image(proposals[0][order], size)])
    posteriors = pad(first[1], (0, 0, 0, len(order)))
    kept = remove_small_boxes(boxes, config.min_side * math.sqrt(size[0] * size[1]))
    boxes, posteriors = boxes[kept], posteriors[kept]
    ranks = torch.arange(len(boxes), 0, -1, dtype=boxes.dtype, device=boxes.device)
    kept = nms(boxes, ranks, config.any_overlap)[: config.num_regions - config.whole_picture]
    boxes, posteriors = boxes[kept], posteriors[kept]
    if config.whole_picture:
        boxes = torch.cat([boxes.new_tensor([[0, 0, size[1], size[0]]]), boxes])
        posteriors = pad(posteriors, (0, 0, 1, 0))
    missing = config.num_regions - len(boxes)
    mask = pad(torch.ones(len(boxes), dtype=torch.bool, device=boxes.device), (0, missing))
    padded = (pad(boxes, (0, 0, 0, missing)), pad(posteriors, (0, 0, 0, missing)), mask)
    return JointRegions(*(tensor[None] for tensor in padded))


def _surviving(
    boxes: Float[Tensor, "N 4"], scores: Float[Tensor, "N C"], overlap: float, size: tuple[int, int]
) -> tuple[Float[Tensor, "M 4"], Float[Tensor, "M C"]]:
    """The boxes left after suppression by their best scores, the highest first, within the picture."""
    boxes = clip_boxes_to_image(boxes, size)
    kept = nms(boxes, scores.amax(1), overlap)
    return boxes[kept], scores[kept]
