"""The choice of regions among a detector's boxes: non-maximum suppression, the best class of each box, and a limit.

Method: Anderson et al. 2018, bottom-up attention. "Overlap" is intersection over union throughout.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torch.nn.functional import pad
from torchvision.ops import box_iou, clip_boxes_to_image, nms, remove_small_boxes

from models.batches import Rows

MIN_SIDE = 1 / 14  # times the square root of the picture's area: one cell of the last map, at 448 pixels


@runtime_checkable
class SelectionConfig(Protocol):
    """The part of a detector's configuration that concerns the choice."""

    @property
    def num_regions(self) -> int: ...
    @property
    def whole_picture(self) -> bool: ...
    @property
    def class_overlap(self) -> float: ...
    @property
    def any_overlap(self) -> float: ...


@dataclass(frozen=True)
class SelectedRegions(Rows):
    """The regions of pictures before they have features; rows where `mask` is False are zeros."""

    boxes: Float[Tensor, "K R 4"]
    labels: Int64[Tensor, "K R"]
    confidence: Float[Tensor, "K R"]
    mask: Bool[Tensor, "K R"]


class SelectedBoxes(NamedTuple):
    """Some of a picture's boxes by their indices, with class and probability, the most probable first."""

    indices: Int64[Tensor, " N"]
    labels: Int64[Tensor, " N"]
    confidence: Float[Tensor, " N"]


def select_regions(
    boxes: Float[Tensor, "P 4"],
    probabilities: Float[Tensor, "P C"],
    size: tuple[int, int],
    config: SelectionConfig,
    min_side: float = MIN_SIDE,
) -> SelectedRegions:
    """The regions of one picture of `size` (height, width) among its refined boxes, padded to `num_regions` rows.

    The whole picture, if wanted, comes first and has label C, after the classes. Boxes with a side under `min_side`
    times the square root of the picture's area are dropped, and boxes that overlap a more probable one by more than
    `any_overlap`, whatever the class; of the rest `select_best_boxes` takes the most probable.
    """
    boxes = clip_boxes_to_image(boxes, size)
    kept = remove_small_boxes(boxes, min_side * math.sqrt(size[0] * size[1]))
    kept = kept[class_agnostic_nms(boxes[kept], probabilities[kept], config.any_overlap)]
    boxes, probabilities = boxes[kept], probabilities[kept]
    count = config.num_regions - config.whole_picture
    indices, labels, confidence = select_best_boxes(boxes, probabilities, count, config.class_overlap)
    boxes = boxes[indices]
    if config.whole_picture:
        boxes = torch.cat([boxes.new_tensor([[0, 0, size[1], size[0]]]), boxes])
        labels = pad(labels, (1, 0), value=probabilities.shape[1])
        confidence = pad(confidence, (1, 0), value=1.0)
    missing = config.num_regions - len(boxes)
    mask = pad(torch.ones_like(labels, dtype=torch.bool), (0, missing))
    padded = (pad(boxes, (0, 0, 0, missing)), pad(labels, (0, missing)), pad(confidence, (0, missing)), mask)
    return SelectedRegions(*(tensor[None] for tensor in padded))


def select_best_boxes(
    boxes: Float[Tensor, "P 4"], probabilities: Float[Tensor, "P C"], count: int, overlap: float
) -> SelectedBoxes:
    """At most `count` boxes by their best probability among the classes in which they survive suppression.

    In each of the C classes (background is not among them) every box competes with that class's probability and is
    suppressed by a more probable one that it overlaps by more than `overlap`. A box that survives in no class is not
    selected.
    """
    confidence, labels = probabilities.masked_fill(~class_wise_nms(boxes, probabilities, overlap), -1).max(1)
    order = confidence.argsort(descending=True, stable=True)
    order = order[confidence[order] >= 0][:count]
    return SelectedBoxes(order, labels[order], confidence[order])


def class_agnostic_nms(
    boxes: Float[Tensor, "P 4"], probabilities: Float[Tensor, "P C"], overlap: float
) -> Int64[Tensor, " N"]:
    """Indices of the boxes that survive suppression by their best probability, whatever their classes."""
    kept: Tensor = nms(boxes, probabilities.amax(1), overlap)
    return kept


def class_wise_nms(
    boxes: Float[Tensor, "P 4"], probabilities: Float[Tensor, "P C"], overlap: float
) -> Bool[Tensor, "P C"]:
    """The classes in which each box survives suppression.

    All classes share one table of overlaps and process their boxes in parallel, the most probable first.
    """
    may_coexist = (~(box_iou(boxes, boxes) > overlap)).fill_diagonal_(True)
    classes = torch.arange(probabilities.shape[1], device=boxes.device)
    survives = torch.ones_like(probabilities.mT, dtype=torch.bool)
    for rank in probabilities.argsort(dim=0, descending=True, stable=True):
        # A box that overlaps a more probable one is already gone, so only later boxes are suppressed.
        alive = survives[classes, rank].nonzero()[:, 0]
        survives[alive] &= may_coexist[rank[alive]]
    return survives.mT


def box_confidences(
    boxes: Float[Tensor, "P 4"], probabilities: Float[Tensor, "P C"], overlap: float
) -> Float[Tensor, " P"]:
    """A box's best probability among the classes in which it survives suppression; 0 if there is none."""
    return probabilities.masked_fill(~class_wise_nms(boxes, probabilities, overlap), 0).amax(1)


def select_by_threshold(
    confidence: Float[Tensor, " P"], threshold: float, min_boxes: int, max_boxes: int
) -> Int64[Tensor, " N"]:
    """Indices of the boxes of at least `threshold`, in their order.

    If these are fewer than `min_boxes` or more than `max_boxes`: that number of boxes with the highest confidence, best
    first. The script that made the published features does the same.
    """
    confident = (confidence >= threshold).nonzero()[:, 0]
    if min_boxes <= len(confident) <= max_boxes:
        return confident
    count = min_boxes if len(confident) < min_boxes else max_boxes
    return confidence.argsort(descending=True, stable=True)[:count]
