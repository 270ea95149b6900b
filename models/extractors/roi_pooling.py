"""Cells of boxes, pooled from the levels of a feature pyramid, for networks that are not trained, on a CPU.

The same as torchvision's `MultiScaleRoIAlign` (RoIAlign, He et al. 2017; levels by eq. 1 of FPN, Lin et al. 2017).

A cell is a weighted sum of a few places of a map. As one sum of embeddings, a row of channels a place, all boxes of all
levels take an eighth of the time of torchvision's kernel, which reads one channel after the other.
"""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn.functional import embedding_bag
from torchvision.ops import MultiScaleRoIAlign

FINEST_LEVEL, CANONICAL_LEVEL = 3, 4  # log2 of the finest stride, and of that of boxes of the canonical side


class SumPooler(nn.Module):
    """In the place of torchvision's pooler, with its settings."""

    def __init__(self, pooler: MultiScaleRoIAlign) -> None:
        super().__init__()
        self.cells, self.samples = pooler.output_size[0], pooler.sampling_ratio
        self.canonical_side = pooler.canonical_scale

    def forward(
        self, maps: Mapping[str, Float[Tensor, "K C _ _"]], boxes: Sequence[Float[Tensor, "_ 4"]], sizes: object
    ) -> Float[Tensor, "N C S S"]:
        """S x S cells of the boxes of K pictures in pixels, one picture after the other; they lie channels last.

        The maps have strides 8, 16 and so on, so that the pictures' sizes are not needed.
        """
        levels, corners = list(maps.values()), torch.cat(list(boxes))
        level = _levels(corners, self.canonical_side, len(levels))
        places = corners / (2 ** (level + FINEST_LEVEL))[:, None]
        heights, widths = (level.new_tensor([each.shape[side] for each in levels])[level] for side in (2, 3))
        down, down_weights = _places_of_axis(places[:, 1::2], heights, self.cells, self.samples)
        across, across_weights = _places_of_axis(places[:, 0::2], widths, self.cells, self.samples)
        down = _first_rows(levels, boxes, level)[:, None, None] + down * widths[:, None, None]
        index = down[:, :, None, :, None] + across[:, None, :, None, :]
        weights = down_weights[:, :, None, :, None] * across_weights[:, None, :, None, :]
        index, weights = (each.flatten(3).flatten(0, 2) for each in (index, weights))
        rows = torch.cat([each.permute(0, 2, 3, 1).flatten(0, 2) for each in levels])
        pooled = embedding_bag(index, rows, per_sample_weights=weights, mode="sum")
        return pooled.view(-1, self.cells, self.cells, rows.shape[1]).permute(0, 3, 1, 2)


def _levels(boxes: Float[Tensor, "N 4"], canonical_side: int, count: int) -> Int64[Tensor, " N"]:
    """The number of the map of each box: the larger it is, the coarser."""
    sides = (boxes[:, 2:] - boxes[:, :2]).prod(1).sqrt()
    level = (CANONICAL_LEVEL + (sides / canonical_side).log2() + 1e-6).floor()
    return (level - FINEST_LEVEL).clamp(0, count - 1).long()


def _places_of_axis(
    ends: Float[Tensor, "N 2"], length: Int64[Tensor, " N"], cells: int, samples: int
) -> tuple[Int64[Tensor, "N S P"], Float[Tensor, "N S P"]]:
    """The P = 2 * samples places along one axis that each of S cells of a box is made of, and their weights.

    `ends` are the box's ends and `length` the axis's, in cells of the map. A box is taken to be a cell long at least. A
    sample more than a cell outside the map weighs nothing; one nearer counts as if it lay on the border.
    """
    size = (ends[:, 1] - ends[:, 0]).clamp(min=1)
    share = (torch.arange(cells * samples, device=ends.device) + 0.5) / (cells * samples)
    place = ends[:, :1] + size[:, None] * share
    last = length[:, None] - 1
    inside = (place >= -1) & (place <= length[:, None])
    place = place.clamp(min=0).minimum(last)
    low = place.floor().minimum((last - 1).clamp(min=0))
    beyond = place - low
    index = torch.stack([low, (low + 1).minimum(last)], 2).long()
    weights = torch.stack([1 - beyond, beyond], 2) * (inside / samples)[:, :, None]
    of_cell = (len(ends), cells, 2 * samples)
    return index.view(of_cell), weights.view(of_cell)


def _first_rows(
    maps: Sequence[Tensor], boxes: Sequence[Float[Tensor, "_ 4"]], level: Int64[Tensor, " N"]
) -> Int64[Tensor, " N"]:
    """The number of the row, among those of all maps and pictures, at which the map of each box begins."""
    sizes = level.new_tensor([one.shape[2] * one.shape[3] for one in maps])
    begins = (sizes * len(boxes)).cumsum(0) - sizes * len(boxes)
    counts = level.new_tensor([len(of_picture) for of_picture in boxes])
    picture = torch.arange(len(boxes), device=level.device).repeat_interleave(counts)
    return begins[level] + picture * sizes[level]
