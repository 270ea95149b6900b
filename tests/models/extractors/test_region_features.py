"""One vector a region: from the right scale, by either way."""

import pytest
import torch
from torchvision.ops import roi_align

from models.extractors.backbones.base import Backbone, Maps
from models.extractors.backbones.registry import build_backbone
from models.extractors.faster_rcnn.region_features import FeatureKind, grow_boxes, mean_inside_boxes, region_features


@pytest.fixture(scope="module")
def backbone() -> Backbone:
    torch.manual_seed(0)
    return build_backbone("mobilenet-v2").eval()


def two_scales(backbone: Backbone) -> tuple[Maps, Maps]:
    generator = torch.Generator().manual_seed(1)
    large, half = (torch.rand(2, 3, side, side, generator=generator) for side in (448, 224))
    return backbone(large), backbone(half)


BOXES = torch.tensor(
    [
        [[0.0, 0, 448, 448], [10, 20, 110, 90], [0, 0, 0, 0]],
        [[100, 100, 440, 440], [0, 0, 448, 200], [5, 5, 6, 6]],
    ]
)
MASK = torch.tensor([[True, True, False], [True, True, True]])
LARGE = [[True, False, False], [True, False, False]]  # mean side above 317 pixels


@pytest.mark.parametrize("kind", ["map", "region"])
@torch.no_grad()
def test_each_region_alone_gives_the_same(backbone: Backbone, kind: FeatureKind) -> None:
    scales = two_scales(backbone)
    features = region_features(backbone, kind, 8, scales, BOXES, MASK)
    assert not features[~MASK].any()
    for picture, region in MASK.nonzero().tolist():
        large = LARGE[picture][region]
        maps, shrink = (scales[1], 0.5) if large else (scales[0], 1.0)
        box = [BOXES[picture, region][None] * shrink]
        if kind == "map":
            wide = backbone.widen(maps.stride32[[picture]])
            expected = roi_align(wide, box, 8, 1 / 32, 2, aligned=True)
        else:
            expected = backbone.last_stage(roi_align(maps.stride16[[picture]], box, 8, 1 / 16, 2, aligned=True))
        torch.testing.assert_close(features[picture, region], expected.mean((2, 3))[0], rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_pictures_without_a_large_or_a_small_region_are_ordinary(backbone: Backbone) -> None:
    scales = two_scales(backbone)
    whole = torch.tensor([[0.0, 0, 448, 448]]).expand(2, 1, 4)
    for boxes in (whole, whole / 8):
        assert region_features(backbone, "map", 4, scales, boxes, torch.ones(2, 1, dtype=torch.bool)).any()
    assert not region_features(backbone, "map", 4, scales, whole, torch.zeros(2, 1, dtype=torch.bool)).any()


@torch.no_grad()
def test_surroundings_are_the_grown_box_in_equal_parts(backbone: Backbone) -> None:
    scales = two_scales(backbone)
    grown_boxes = torch.tensor([[[0.0, 0, 448, 448], [0, 0, 210, 160], [0, 0, 0, 0]]]).expand(2, 3, 4)
    boxes = torch.tensor([[[0.0, 0, 448, 448], [10, 20, 110, 90], [0, 0, 0, 0]]]).expand(2, 3, 4)
    torch.testing.assert_close(grow_boxes(boxes, 3.0, scales[0])[:, :2], grown_boxes[:, :2])
    mask = MASK[:1].expand(2, 3)
    alone, around = (region_features(backbone, "map", 4, scales, each, mask) for each in (boxes, grown_boxes))
    both = region_features(backbone, "map", 4, scales, boxes, mask, surroundings=3.0)
    torch.testing.assert_close(both, (alone + around) / 2)


@torch.no_grad()
def test_means_by_a_matrix_product_are_those_of_roi_align(backbone: Backbone) -> None:
    generator = torch.Generator().manual_seed(2)
    maps, corners = torch.randn(3, 5, 9, 14, generator=generator), torch.rand(40, 2, 2, generator=generator)
    boxes = torch.cat([corners.amin(1), corners.amax(1)], 1) * torch.tensor([448, 288, 448, 288])
    boxes[:2] = torch.tensor([[0.0, 0, 448, 288], [447, 0, 448, 1]])
    rois = torch.cat([torch.randint(0, 2, (40, 1), generator=generator), boxes], 1)
    for cells in (4, 7):
        expected = roi_align(maps, rois, cells, 1 / 32, 2, aligned=True).mean((2, 3))
        torch.testing.assert_close(mean_inside_boxes(maps, rois, cells), expected, rtol=1e-4, atol=1e-5)
    scales = two_scales(backbone)
    plain = region_features(backbone, "map", 4, scales, BOXES, MASK, 2.5)
    known = backbone.widen(scales[0].stride32)
    for wide in (None, known):
        fast = region_features(backbone, "map-mean", 4, scales, BOXES, MASK, 2.5, wide)
        torch.testing.assert_close(fast, plain, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", ["map", "map-mean", "region"])
@torch.no_grad()
def test_a_box_of_the_whole_picture_is_taken_from_the_smaller_scale(backbone: Backbone, kind: FeatureKind) -> None:
    """The map that a box is not taken from is zeros."""
    large, small = two_scales(backbone)
    whole, one = torch.tensor([[[0.0, 0, 448, 448]]]).expand(2, 1, 4), torch.ones(2, 1, dtype=torch.bool)
    from_both = region_features(backbone, kind, 4, (large, small), whole, one)
    without_large = region_features(backbone, kind, 4, (Maps(*map(torch.zeros_like, large)), small), whole, one)
    without_small = region_features(backbone, kind, 4, (large, Maps(*map(torch.zeros_like, small))), whole, one)
    assert torch.equal(without_large, from_both)
    assert not torch.equal(without_small, from_both)
