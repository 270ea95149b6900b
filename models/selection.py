"""Which of a detector's boxes become regions, as bottom-up attention chooses them."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torchvision.ops import batched_nms, nms


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
