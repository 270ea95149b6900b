"""The choice of regions among the boxes of two detectors."""

from dataclasses import dataclass, replace

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torchvision.ops import box_iou

from models.extractors.faster_rcnn.joint_selection import JointRegions, select_joint_regions


@dataclass(frozen=True)
class Selection:
    num_regions: int = 6
    whole_picture: bool = True
    one_stage_overlap: float = 0.5
    any_overlap: float = 0.45
    min_side: float = 1 / 32


ONE_STAGE = (
    torch.tensor([[0.0, 0, 10, 10], [0, 0, 10, 9], [40, 10, 60, 40], [70, 0, 70.5, 50]]),
    torch.tensor([[0.1, 0.2], [0.3, 0.0], [0.06, 0.0], [0.9, 0.9]]),
)
PROPOSALS = (
    torch.tensor([[41.0, 10, 60, 40], [20, 20, 35, 60], [5, 30, 15, 40], [0, 0, 4, 4]]),
    torch.tensor([0.99, 0.5, 0.7, 0.1]),
)


def regions(
    config: Selection, one_stage: tuple[Tensor, Tensor] = ONE_STAGE, proposals: tuple[Tensor, Tensor] = PROPOSALS
) -> JointRegions:
    return select_joint_regions(one_stage, proposals, (50, 80), config)


def test_the_one_stage_detector_goes_before_proposals() -> None:
    found = regions(Selection())
    # The first box is suppressed by the second, the fourth is too thin, and the first proposal has its box already.
    expected = [[0, 0, 80, 50], [0, 0, 10, 9], [40, 10, 60, 40], [5, 30, 15, 40], [20, 20, 35, 50], [0, 0, 4, 4]]
    assert found.boxes[0].tolist() == expected
    assert found.mask.all()
    scores = torch.tensor([[0.0, 0], [0.3, 0], [0.06, 0], [0, 0], [0, 0], [0, 0]])
    torch.testing.assert_close(found.posteriors[0], scores)


def test_places_that_are_left_are_masked_zeros() -> None:
    found = regions(Selection(num_regions=8))
    assert found.mask[0].tolist() == [True] * 6 + [False] * 2
    assert not found.boxes[0, 6:].any()
    assert regions(Selection(num_regions=2)).boxes[0].tolist() == [[0, 0, 80, 50], [0, 0, 10, 9]]
    without = regions(replace(Selection(num_regions=2), whole_picture=False))
    assert without.boxes[0].tolist() == [[0, 0, 10, 9], [40, 10, 60, 40]]


def test_without_boxes_the_picture_is_the_only_region() -> None:
    none = torch.zeros(0, 4)
    found = regions(Selection(), (none, torch.zeros(0, 2)), (none, torch.zeros(0)))
    assert found.mask[0].tolist() == [True] + [False] * 5
    assert found.posteriors.shape == (1, 6, 2)


@given(num=st.integers(0, 20), num_proposals=st.integers(0, 20), seed=st.integers(0, 10**6))
def test_no_two_regions_but_the_picture_are_one_place(num: int, num_proposals: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)

    def boxes(count: int) -> Tensor:
        corners = torch.rand(count, 2, 2, generator=generator) * 100 - 10
        return torch.cat([corners.amin(1), corners.amax(1)], 1)

    config = Selection(num_regions=12)
    found = regions(
        config,
        (boxes(num), torch.rand(num, 2, generator=generator)),
        (boxes(num_proposals), torch.rand(num_proposals, generator=generator)),
    )
    kept = found.boxes[0][found.mask[0]]
    assert (kept >= 0).all()
    assert (kept <= torch.tensor([80, 50, 80, 50])).all()
    assert (kept[:, 2:] > kept[:, :2]).all()
    if len(kept) > 2:
        assert box_iou(kept[1:], kept[1:]).fill_diagonal_(0).max() <= config.any_overlap + 1e-6


def test_the_smallest_side_is_a_share_of_a_square_as_large_as_the_picture() -> None:
    config = Selection(num_regions=3, min_side=1 / 20)  # of 200 pixels
    just_over, just_under = [0.0, 0, 10.5, 50], [100.0, 0, 150, 9.5]
    none = torch.zeros(0, 4), torch.zeros(0, 2)
    for size in ((100, 400), (400, 100)):
        found = select_joint_regions(
            none, (torch.tensor([just_over, just_under]), torch.tensor([0.1, 0.9])), size, config
        )
        assert found.boxes[0][found.mask[0]].tolist() == [[0, 0, size[1], size[0]], just_over]
