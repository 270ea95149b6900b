"""Where bottom-up attention looks: anchors and proposals with the numbers of the Caffe code it was trained by.

There a box includes its last pixel, so a side is x2 - x1 + 1.
"""

from itertools import product

import torch
from jaxtyping import Float
from torch import Tensor
from torchvision.ops import nms

from models.extractors.bottom_up.caffe_resnet import STRIDE

ASPECTS = (0.5, 1.0, 2.0)  # height / width
SCALES = (4, 8, 16, 32)  # times the stride
LEAST_SIDE = 16.0  # pixels of the picture given
BEFORE_SUPPRESSION = 6000
OVERLAP = 0.7
NUM_PROPOSALS = 300


def cell_anchors() -> Float[Tensor, "12 4"]:
    """Anchors of the first cell, aspect by aspect: sides of the smallest rounded to pixels, then scaled.

    All are centred at 7.5 pixels, where the middle of a cell that ends with pixel 15 is.
    """
    middle = (STRIDE - 1) / 2
    anchors = []
    for aspect, scale in product(ASPECTS, SCALES):
        width = round((STRIDE**2 / aspect) ** 0.5)
        height = round(width * aspect)
        across, down = (scale * width - 1) / 2, (scale * height - 1) / 2
        anchors.append([middle - across, middle - down, middle + across, middle + down])
    return torch.tensor(anchors)


def decoded(anchors: Float[Tensor, "... 4"], deltas: Float[Tensor, "... 4"]) -> Float[Tensor, "... 4"]:
    """Anchors moved by parts of their sides and grown by exponentials."""
    sides = anchors[..., 2:] - anchors[..., :2] + 1
    middles = anchors[..., :2] + sides / 2 + deltas[..., :2] * sides
    halves = deltas[..., 2:].exp() * sides / 2
    return torch.cat([middles - halves, middles + halves], -1)


def proposals(
    logits: Float[Tensor, "h w 12"], deltas: Float[Tensor, "h w 12 4"], size: tuple[int, int], scale: float
) -> Float[Tensor, "P 4"]:
    """At most 300 boxes in pixels looked at, the surest first; `size` (height, width) is of what was looked at.

    Where nothing is at least 16 pixels a side in the picture given, which was enlarged by `scale`: all of it.
    """
    num_rows, num_columns = logits.shape[:2]
    rows = torch.arange(num_rows, device=logits.device) * STRIDE
    columns = torch.arange(num_columns, device=logits.device) * STRIDE
    down, across = torch.meshgrid(rows, columns, indexing="ij")
    shifts = torch.stack([across, down, across, down], -1)[:, :, None]
    boxes = decoded(cell_anchors().to(logits) + shifts, deltas).flatten(0, 2)
    height, width = size
    far = boxes.new_tensor([width - 1, height - 1] * 2)
    boxes = boxes.clamp(min=0).minimum(far)
    large = (boxes[:, 2:] - boxes[:, :2] + 1 >= LEAST_SIDE * scale).all(1)
    order = logits.flatten()[large].argsort(descending=True, stable=True)[:BEFORE_SUPPRESSION]
    boxes = boxes[large][order]
    if not len(boxes):
        return far[None] * far.new_tensor([0, 0, 1, 1])
    ranks = torch.arange(len(boxes), 0, -1, device=boxes.device, dtype=boxes.dtype)
    kept: Tensor = nms(closed(boxes), ranks, OVERLAP)
    return boxes[kept[:NUM_PROPOSALS]]


def closed(boxes: Float[Tensor, "P 4"]) -> Float[Tensor, "P 4"]:
    """Boxes to their last pixel's far edge, so that usual areas of them are those of pixels counted inclusively."""
    return boxes + boxes.new_tensor([0, 0, 1, 1])
