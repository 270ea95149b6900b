"""Feature vectors of regions: means of the backbone's last map inside boxes, from one of two scales."""

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torchvision.ops import roi_align

from models.extractors.backbones.base import BACKBONE_FEATURE_DIM, MIDDLE_STRIDE, STRIDE, Backbone, Maps

FeatureKind = Literal["region", "map"]


def region_features(
    backbone: Backbone,
    kind: FeatureKind,
    cells: int,
    scales: tuple[Maps, Maps],
    boxes: Float[Tensor, "K R 4"],
    mask: Bool[Tensor, "K R"],
    surroundings: float = 1.0,
) -> Float[Tensor, "K R 1280"]:
    """Mean features of boxes given in pixels of the first of two scales, of which the second is half as large.

    "region" cuts the stride-16 map and runs the last stage on each cut (the papers' C4 detector); "map" runs
    the last stage once and cuts its map. A cut has `cells` cells a side. A box is taken from the scale at which
    it is nearer to the size of a whole picture at the second one, which is what the backbone learned from.
    With `surroundings` over 1, a feature is the mean of the box's and that of the box grown by this factor.
    Rows where `mask` is False are zeros.
    """
    if surroundings > 1:
        both = torch.cat([boxes, grow_boxes(boxes, surroundings, scales[0])], 1)
        alone, around = region_features(backbone, kind, cells, scales, both, mask.repeat(1, 2)).chunk(2, 1)
        return (alone + around) / 2
    features = boxes.new_zeros(*mask.shape, BACKBONE_FEATURE_DIM)
    sides = (boxes[..., 2:] - boxes[..., :2]).prod(-1).clamp(min=1).sqrt()
    height, width = scales[1].stride32.shape[2:]
    large = sides > STRIDE * (2 * height * width) ** 0.5
    for maps, shrink, of_scale in ((scales[0], 1.0, mask & ~large), (scales[1], 0.5, mask & large)):
        pictures = of_scale.nonzero()[:, :1]
        if len(pictures):
            rois = torch.cat([pictures.to(boxes.dtype), boxes[of_scale] * shrink], 1)
            features[of_scale] = _mean_features(backbone, kind, cells, maps, rois)
    return features


def grow_boxes(boxes: Float[Tensor, "K R 4"], factor: float, maps: Maps) -> Float[Tensor, "K R 4"]:
    """Boxes `factor` times as wide and high about the same middle, cut at the picture's border."""
    height, width = (side * STRIDE for side in maps.stride32.shape[2:])
    middle, reach = (boxes[..., 2:] + boxes[..., :2]) / 2, (boxes[..., 2:] - boxes[..., :2]) / 2 * factor
    border = boxes.new_tensor([width, height, width, height])
    return torch.cat([middle - reach, middle + reach], -1).clamp(min=0).minimum(border)


def _mean_features(
    backbone: Backbone, kind: FeatureKind, cells: int, maps: Maps, rois: Float[Tensor, "N 5"]
) -> Float[Tensor, "N 1280"]:
    if kind == "map":
        wide = backbone.widen(maps.stride32)
        cuts: Tensor = roi_align(wide, rois, cells, 1 / STRIDE, 2, True)
        return cuts.mean((2, 3))
    # One sample a cell: a box of 14 x 14 cells is cut out as it is, where more samples would blur it.
    cuts = roi_align(maps.stride16, rois, cells, 1 / MIDDLE_STRIDE, 1, True)
    return backbone.last_stage(cuts.contiguous(memory_format=torch.channels_last)).mean((2, 3))
