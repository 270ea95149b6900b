"""Anchors and proposals of bottom-up attention, with the numbers of the Caffe code that it was trained with.

In that code a box includes its last pixel, so a side is x2 - x1 + 1.
"""

from itertools import product

import torch
from jaxtyping import Float
from torch import Tensor
from torchvision.ops import nms

from models.extractors.bottom_up.caffe_resnet import MAP_STRIDE

ANCHOR_ASPECT_RATIOS = (0.5, 1.0, 2.0)  # height / width
ANCHOR_SCALES = (4, 8, 16, 32)  # times the stride
MIN_PROPOSAL_SIDE = 16.0  # pixels of the original picture
NUM_CANDIDATES = 6000  # before suppression
PROPOSAL_OVERLAP = 0.7
NUM_PROPOSALS = 300


def cell_anchors() -> Float[Tensor, "12 4"]:
    """Anchors of the first cell, aspect by aspect: sides of the smallest rounded to pixels, then scaled.

    All are centred at 7.5 pixels, the middle of a cell of pixels 0 to 15.
    """
    middle = (MAP_STRIDE - 1) / 2
    anchors = []
    for aspect, scale in product(ANCHOR_ASPECT_RATIOS, ANCHOR_SCALES):
        width = round((MAP_STRIDE**2 / aspect) ** 0.5)
        height = round(width * aspect)
        across, down = (scale * width - 1) / 2, (scale * height - 1) / 2
        anchors.append([middle - across, middle - down, middle + across, middle + down])
    return torch.tensor(anchors)


def decode_boxes(anchors: Float[Tensor, "... 4"], deltas: Float[Tensor, "... 4"]) -> Float[Tensor, "... 4"]:
    """Anchors with their centres moved by `deltas` times their sides, and their sides grown by exponentials."""
    sides = anchors[..., 2:] - anchors[..., :2] + 1
    middles = anchors[..., :2] + sides / 2 + deltas[..., :2] * sides
    halves = deltas[..., 2:].exp() * sides / 2
    return torch.cat([middles - halves, middles + halves], -1)


def propose_boxes(
    logits: Float[Tensor, "h w 12"], deltas: Float[Tensor, "h w 12 4"], size: tuple[int, int], scale: float
) -> Float[Tensor, "P 4"]:
    """At most 300 boxes in pixels of the resized picture of `size` (height, width), the most probable first.

    Boxes with a side under 16 pixels in the original picture, which was enlarged by `scale`, are dropped; if none
    remain, the whole picture is the only box.
    """
    num_rows, num_columns = logits.shape[:2]
    rows = torch.arange(num_rows, device=logits.device) * MAP_STRIDE
    columns = torch.arange(num_columns, device=logits.device) * MAP_STRIDE
    down, across = torch.meshgrid(rows, columns, indexing="ij")
    shifts = torch.stack([across, down, across, down], -1)[:, :, None]
    boxes = decode_boxes(cell_anchors().to(logits) + shifts, deltas).flatten(0, 2)
    height, width = size
    far = boxes.new_tensor([width - 1, height - 1] * 2)
    boxes = boxes.clamp(min=0).minimum(far)
    large = (boxes[:, 2:] - boxes[:, :2] + 1 >= MIN_PROPOSAL_SIDE * scale).all(1)
    order = logits.flatten()[large].argsort(descending=True, stable=True)[:NUM_CANDIDATES]
    boxes = boxes[large][order]
    if not len(boxes):
        return far[None] * far.new_tensor([0, 0, 1, 1])
    ranks = torch.arange(len(boxes), 0, -1, device=boxes.device, dtype=boxes.dtype)
    kept: Tensor = nms(include_last_pixel(boxes), ranks, PROPOSAL_OVERLAP)
    return boxes[kept[:NUM_PROPOSALS]]


def include_last_pixel(boxes: Float[Tensor, "P 4"]) -> Float[Tensor, "P 4"]:
    """Boxes extended to the far edge of their last pixel, so that areas count pixels inclusively."""
    return boxes + boxes.new_tensor([0, 0, 1, 1])
