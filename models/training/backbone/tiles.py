"""Overlapping tiles of square pictures, and mean features inside them, cut from a backbone's last map.

Tunings sample a tile's cells at one or two points per side. For the fitting of a head to a finished backbone, tiles are
cut by the detector's code, like its regions later.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torchvision.ops import roi_align

from models.batches import Regions
from models.extractors.faster_rcnn.region_features import mean_inside_boxes

TILE_CELLS = 4  # per side of a sampled tile, as for the detector's regions
TILINGS = (1, 2, 3)  # tiles per side
TILE_OVERLAP = 0.3


def tile_boxes() -> Float[Tensor, "R 4"]:
    """The picture and its tiles as fractions of its sides, neighbours overlapping by TILE_OVERLAP of their width."""
    boxes = []
    for count in TILINGS:
        width = 1 / (count - (count - 1) * TILE_OVERLAP)
        starts = [number * width * (1 - TILE_OVERLAP) for number in range(count)]
        boxes += [[x, y, x + width, y + width] for y in starts for x in starts]
    return torch.tensor(boxes)


def tile_regions(maps: Float[Tensor, "K F h h"]) -> Regions:
    """Mean features of square pictures and of their tiles, from their last maps."""
    vectors = _tile_means(maps, tile_boxes(), samples=2)
    return Regions(vectors, torch.ones(vectors.shape[:2], dtype=torch.bool, device=maps.device))


def tile_means(maps: Float[Tensor, "K F h h"]) -> Float[Tensor, "K R F"]:
    """Mean features of the tiles of square pictures, without the whole picture."""
    return _tile_means(maps, tile_boxes()[1:], samples=1)


def _tile_means(maps: Float[Tensor, "K F h h"], boxes: Float[Tensor, "R 4"], samples: int) -> Float[Tensor, "K R F"]:
    """Mean features inside the same boxes of every picture, with `samples` samples along a side of a cell."""
    in_cells = boxes.to(maps.device) * maps.shape[-1]
    cuts: Tensor = roi_align(maps, [in_cells] * len(maps), TILE_CELLS, 1.0, samples, True)
    return cuts.mean((2, 3)).view(len(maps), len(boxes), -1)


def means_inside(maps: Float[Tensor, "K F h w"], boxes: Float[Tensor, "N 5"]) -> Float[Tensor, "K T F"]:
    """Mean features of equally many boxes of each picture, (picture, x1 y1 x2 y2 in pixels)."""
    means = mean_inside_boxes(maps, boxes, TILE_CELLS)
    return means.view(len(maps), -1, means.shape[1])
