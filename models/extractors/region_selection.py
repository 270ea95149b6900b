"""Which of a detector's boxes become regions, as bottom-up attention chooses them."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torchvision.ops import batched_nms, box_iou, nms


class Chosen(NamedTuple):
    """Boxes chosen, the surest first."""

    indices: Int64[Tensor, " N"]
    labels: Int64[Tensor, " N"]
    confidence: Float[Tensor, " N"]


def choose(boxes: Float[Tensor, "P 4"], probabilities: Float[Tensor, "P C"], count: int, overlap: float) -> Chosen:
    """At most `count` boxes by their best probability among the classes in which they survive suppression.

    In each of the C classes (background is not among them) every box competes with that class's probability
    and falls to a surer one that it overlaps by more than `overlap` (intersection over union). A box that
    survives in no class is not chosen. Method: Anderson et al. 2018, bottom-up attention.
    """
    num_boxes, num_classes = probabilities.shape
    places = torch.arange(num_boxes * num_classes, device=boxes.device)
    kept = batched_nms(boxes.repeat_interleave(num_classes, 0), probabilities.flatten(), places % num_classes, overlap)
    survived = torch.full_like(probabilities, -1.0).flatten()
    survived[kept] = probabilities.flatten()[kept]
    confidence, labels = survived.view_as(probabilities).max(1)
    order = confidence.argsort(descending=True, stable=True)
    order = order[confidence[order] >= 0][:count]
    return Chosen(order, labels[order], confidence[order])


def distinct(boxes: Float[Tensor, "P 4"], probabilities: Float[Tensor, "P C"], overlap: float) -> Int64[Tensor, " N"]:
    """Indices of boxes that are not the same place twice, whatever their class, the surest kept."""
    kept: Tensor = nms(boxes, probabilities.amax(1), overlap)
    return kept


def surviving(boxes: Float[Tensor, "P 4"], probabilities: Float[Tensor, "P C"], overlap: float) -> Bool[Tensor, "P C"]:
    """In which classes each box stands, once every surer box that stands has felled those it overlaps by more.

    All classes share one table of overlaps and go through their boxes, the surest first, side by side.
    """
    spares = (~(box_iou(boxes, boxes) > overlap)).fill_diagonal_(True)
    classes = torch.arange(probabilities.shape[1], device=boxes.device)
    standing = torch.ones_like(probabilities.mT, dtype=torch.bool)
    for place in probabilities.argsort(dim=0, descending=True, stable=True):
        # A surer box that overlaps this one has fallen before, or this one would have: so only later ones fall.
        fit = standing[classes, place].nonzero()[:, 0]
        standing[fit] &= spares[place[fit]]
    return standing.mT


def confidences(
    boxes: Float[Tensor, "P 4"], probabilities: Float[Tensor, "P C"], overlap: float
) -> Float[Tensor, " P"]:
    """A box's best probability among the classes in which it survives suppression; 0 where it survives in none."""
    return probabilities.masked_fill(~surviving(boxes, probabilities, overlap), 0).amax(1)


def between(confidence: Float[Tensor, " P"], threshold: float, at_least: int, at_most: int) -> Int64[Tensor, " N"]:
    """Those of at least `threshold`, in their order; the surest `at_least` or `at_most` where they are too few or many.

    Method: Anderson et al. 2018, bottom-up attention, as its authors' features were made.
    """
    sure = (confidence >= threshold).nonzero()[:, 0]
    if at_least <= len(sure) <= at_most:
        return sure
    return confidence.argsort(descending=True, stable=True)[: at_least if len(sure) < at_least else at_most]
