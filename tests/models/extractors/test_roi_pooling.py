"""Cells of boxes pooled from a pyramid equal torchvision's, wherever the boxes lie."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torchvision.ops import MultiScaleRoIAlign

from models.extractors.roi_pooling import SumPooler

HEIGHT, WIDTH, CHANNELS = 96, 160, 5
LEVELS = ("stride8", "stride16", "stride32")


def pyramid(pictures: int, seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(pictures, CHANNELS, HEIGHT // stride, WIDTH // stride, generator=generator)
        for name, stride in zip(LEVELS, (8, 16, 32), strict=True)
    }


def both(maps: dict[str, Tensor], boxes: list[Tensor], cells: int = 7, samples: int = 2) -> tuple[Tensor, Tensor]:
    pooler = MultiScaleRoIAlign(list(LEVELS), cells, sampling_ratio=samples, canonical_scale=60)
    sizes = [(HEIGHT, WIDTH)] * len(boxes)
    return SumPooler(pooler)(maps, boxes, sizes), pooler(maps, boxes, sizes)


coordinates = st.floats(0, 1, width=32)


@given(st.lists(st.tuples(coordinates, coordinates, coordinates, coordinates), min_size=1, max_size=6))
def test_any_box_gets_the_cells_of_torchvision(corners: list[tuple[float, float, float, float]]) -> None:
    given_corners = torch.tensor(corners).view(-1, 2, 2)
    boxes = torch.cat([given_corners.amin(1), given_corners.amax(1)], 1)
    boxes = boxes * torch.tensor([WIDTH, HEIGHT, WIDTH, HEIGHT])
    ours, theirs = both(pyramid(1), [boxes])
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("cells", "samples"), [(7, 2), (3, 1), (2, 4)])
def test_pictures_of_a_batch_get_their_own_cells_from_all_levels(cells: int, samples: int) -> None:
    sides = torch.tensor([4.0, 20, 50, 90])
    boxes = torch.cat([torch.tensor([[3.0, 2]]).expand(4, 2), 3 + sides[:, None].expand(4, 2)], 1)
    ours, theirs = both(pyramid(3), [boxes, boxes[:0], boxes[1:] + 5], cells, samples)
    assert ours.shape == (7, CHANNELS, cells, cells)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_beyond_the_border_a_map_is_zero_from_a_cell_on() -> None:
    boxes = torch.tensor([[-70.0, -30, 20, 50], [150, 80, 260, 200], [160, 96, 160, 96], [-90, -90, -80, -80]])
    ours, theirs = both(pyramid(1), [boxes])
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    assert not ours[3].any()


def test_no_boxes_get_no_cells() -> None:
    ours, theirs = both(pyramid(1), [torch.empty(0, 4)])
    assert ours.shape == theirs.shape


def test_a_map_of_one_cell_is_read_everywhere() -> None:
    maps = {name: torch.full((1, 2, 1, 1), 3.0) for name in LEVELS}
    pooler = MultiScaleRoIAlign(list(LEVELS), 2, sampling_ratio=2, canonical_scale=60)
    pooled = SumPooler(pooler)(maps, [torch.tensor([[0.0, 0, 8, 8]])], [(8, 8)])
    torch.testing.assert_close(pooled, torch.full((1, 2, 2, 2), 3.0))
