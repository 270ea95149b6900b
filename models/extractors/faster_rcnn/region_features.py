"""Feature vectors of regions: means of the backbone's last map inside boxes, from one of two scales."""

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torchvision.ops import roi_align

from models.extractors.backbones.base import BACKBONE_FEATURE_DIM, MIDDLE_STRIDE, STRIDE, Backbone, Maps

FeatureKind = Literal["region", "map", "map-mean"]
SAMPLES = 2  # per side of a cell, interpolated in the map


def region_features(
    backbone: Backbone,
    kind: FeatureKind,
    cells: int,
    scales: tuple[Maps, Maps],
    boxes: Float[Tensor, "K R 4"],
    mask: Bool[Tensor, "K R"],
    surroundings: float = 1.0,
    wide: Float[Tensor, "K 1280 h w"] | None = None,
) -> Float[Tensor, "K R 1280"]:
    """Mean features of boxes given in pixels of the first of two scales, of which the second is half as large.

    "region" crops the stride-16 map and runs the last stage on each crop (the papers' C4 detector); "map" runs the last
    stage once and crops its map; "map-mean" equals "map" up to rounding, in a fraction of the time. A crop has `cells`
    cells per side. A box is taken from the scale at which its size is nearer to that of a whole picture at the second
    scale, which is what the backbone was trained on. With `surroundings` above 1, a feature is the mean of the box's
    and that of the box enlarged by this factor. Rows where `mask` is False are zeros. `wide` is the first scale's map
    after `widen`, if it was computed before.
    """
    if surroundings > 1:
        both = torch.cat([boxes, grow_boxes(boxes, surroundings, scales[0])], 1)
        features = region_features(backbone, kind, cells, scales, both, mask.repeat(1, 2), wide=wide)
        alone, around = features.chunk(2, 1)
        return (alone + around) / 2
    features = boxes.new_zeros(*mask.shape, BACKBONE_FEATURE_DIM)
    sides = (boxes[..., 2:] - boxes[..., :2]).prod(-1).clamp(min=1).sqrt()
    height, width = scales[1].stride32.shape[2:]
    large = sides > STRIDE * (2 * height * width) ** 0.5
    for maps, shrink, of_scale, known in (
        (scales[0], 1.0, mask & ~large, wide),
        (scales[1], 0.5, mask & large, None),
    ):
        pictures = of_scale.nonzero()[:, :1]
        if len(pictures):
            rois = torch.cat([pictures.to(boxes.dtype), boxes[of_scale] * shrink], 1)
            features[of_scale] = _mean_features(backbone, kind, cells, maps, rois, known)
    return features


def grow_boxes(boxes: Float[Tensor, "K R 4"], factor: float, maps: Maps) -> Float[Tensor, "K R 4"]:
    """Boxes `factor` times as wide and high around the same centre, clipped to the picture."""
    height, width = (side * STRIDE for side in maps.stride32.shape[2:])
    middle, reach = (boxes[..., 2:] + boxes[..., :2]) / 2, (boxes[..., 2:] - boxes[..., :2]) / 2 * factor
    border = boxes.new_tensor([width, height, width, height])
    return torch.cat([middle - reach, middle + reach], -1).clamp(min=0).minimum(border)


def mean_inside_boxes(wide: Float[Tensor, "K C h w"], rois: Float[Tensor, "N 5"], cells: int) -> Float[Tensor, "N C"]:
    """Means of a map of stride 32 inside boxes (picture, x1 y1 x2 y2 in pixels within it).

    This is the mean of torchvision's `roi_align` over `cells` cells per side. It is linear in the map: equidistant
    bilinear samples give weights for columns and rows, so all boxes of a picture are one matrix product.
    """
    down, across = (
        _sample_weights(rois[:, first] / STRIDE - 0.5, rois[:, first + 2] / STRIDE - 0.5, cells * SAMPLES, length)
        for first, length in ((2, wide.shape[2]), (1, wide.shape[3]))
    )
    weights = (down[:, :, None] * across[:, None, :]).flatten(1)
    means = wide.new_empty(len(rois), wide.shape[1])
    for number, of_picture in enumerate(wide.flatten(2).mT):
        inside = rois[:, 0] == number
        means[inside] = weights[inside] @ of_picture
    return means


def _sample_weights(
    start: Float[Tensor, " N"], end: Float[Tensor, " N"], count: int, length: int
) -> Float[Tensor, "N L"]:
    """Weights of the `length` cells of one axis in the mean of `count` samples between start and end."""
    share = (torch.arange(count, device=start.device) + 0.5) / count
    places = (start[:, None] + (end - start)[:, None] * share).clamp(0, length - 1)
    distance = (places[:, :, None] - torch.arange(length, device=start.device)).abs()
    return (1 - distance).clamp(min=0).mean(1)


def _mean_features(
    backbone: Backbone,
    kind: FeatureKind,
    cells: int,
    maps: Maps,
    rois: Float[Tensor, "N 5"],
    wide: Float[Tensor, "K 1280 h w"] | None,
) -> Float[Tensor, "N 1280"]:
    if kind != "region":
        wide = backbone.widen(maps.stride32) if wide is None else wide
        if kind == "map-mean":
            return mean_inside_boxes(wide, rois, cells)
        cuts: Tensor = roi_align(wide, rois, cells, 1 / STRIDE, SAMPLES, True)
        return cuts.mean((2, 3))
    # One sample per cell crops a box of 14 x 14 cells exactly; more samples would blur it.
    cuts = roi_align(maps.stride16, rois, cells, 1 / MIDDLE_STRIDE, 1, True)
    return backbone.last_stage(cuts.contiguous(memory_format=torch.channels_last)).mean((2, 3))
