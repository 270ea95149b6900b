"""The choice of regions among boxes."""

from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torchvision.ops import batched_nms, box_iou, nms

from models.extractors.bottom_up.proposals import include_last_pixel
from models.extractors.region_selection import (
    SelectedRegions,
    box_confidences,
    class_agnostic_nms,
    class_wise_nms,
    select_best_boxes,
    select_by_threshold,
    select_regions,
)
from tests.support import caffe_reference as caffe


def random_boxes(num: int, num_classes: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    corners = torch.rand(num, 2, 2, generator=generator) * 10
    boxes = torch.cat([corners.amin(1), corners.amax(1) + 0.5], 1)
    return boxes, torch.rand(num, num_classes + 1, generator=generator).softmax(1)[:, 1:]


def chosen_in_loops(boxes: Tensor, probabilities: Tensor, count: int, overlap: float) -> list[tuple[int, int]]:
    """(box, class) as section 7.1 of the reference describes: suppression a class, best class a box."""
    overlaps = box_iou(boxes, boxes)
    best: dict[int, tuple[float, int]] = {}
    for label in range(probabilities.shape[1]):
        standing: list[int] = []
        for box in sorted(range(len(boxes)), key=lambda box: -float(probabilities[box, label])):
            if all(overlaps[box, other] <= overlap for other in standing):
                standing.append(box)
        for box in standing:
            probability = float(probabilities[box, label])
            if box not in best or probability > best[box][0]:
                best[box] = (probability, label)
    order = sorted(best, key=lambda box: -best[box][0])[:count]
    return [(box, best[box][1]) for box in order]


@given(num=st.integers(0, 30), num_classes=st.integers(1, 6), count=st.integers(0, 20), seed=st.integers(0, 10**6))
def test_choice_is_the_published_one_in_loops(num: int, num_classes: int, count: int, seed: int) -> None:
    boxes, probabilities = random_boxes(num, num_classes, seed)
    chosen = select_best_boxes(boxes, probabilities, count, 0.3)
    expected = chosen_in_loops(boxes, probabilities, count, 0.3)
    assert list(zip(chosen.indices.tolist(), chosen.labels.tolist(), strict=True)) == expected
    assert torch.equal(chosen.confidence, probabilities[chosen.indices, chosen.labels])


def test_a_box_hidden_in_every_class_is_not_chosen() -> None:
    boxes = torch.tensor([[0.0, 0, 10, 10], [0, 0, 10, 9.5]])
    probabilities = torch.tensor([[0.6, 0.3], [0.5, 0.2]])
    assert select_best_boxes(boxes, probabilities, 36, 0.3).indices.tolist() == [0]


@given(num=st.integers(1, 30), seed=st.integers(0, 10**6))
def test_distinct_boxes_overlap_little_and_cover_the_rest(num: int, seed: int) -> None:
    boxes, probabilities = random_boxes(num, 3, seed)
    kept = class_agnostic_nms(boxes, probabilities, 0.5)
    overlaps = box_iou(boxes, boxes[kept])
    assert (overlaps[kept].fill_diagonal_(0) <= 0.5).all()
    fallen = [box for box in range(num) if box not in kept.tolist()]
    assert (overlaps[fallen].amax(1) > 0.5).all() if fallen else True


@given(num=st.integers(1, 30), num_classes=st.integers(1, 6), seed=st.integers(0, 10**6))
def test_surviving_is_suppression_class_by_class(num: int, num_classes: int, seed: int) -> None:
    boxes, probabilities = (each.double() for each in random_boxes(num, num_classes, seed))
    standing = class_wise_nms(boxes, probabilities, 0.3)
    for label in range(num_classes):
        assert standing[:, label].nonzero()[:, 0].tolist() == sorted(nms(boxes, probabilities[:, label], 0.3).tolist())


@given(num=st.integers(0, 30), num_classes=st.integers(1, 6), count=st.integers(1, 40), seed=st.integers(0, 10**6))
def test_the_best_boxes_are_those_of_suppression_by_torchvision(
    num: int, num_classes: int, count: int, seed: int
) -> None:
    boxes, probabilities = (each.double() for each in random_boxes(num, num_classes, seed))
    pairs = torch.arange(num * num_classes)
    kept = batched_nms(boxes.repeat_interleave(num_classes, 0), probabilities.flatten(), pairs % num_classes, 0.3)
    surviving = torch.full_like(probabilities, -1.0).flatten()
    surviving[kept] = probabilities.flatten()[kept]
    confidence, labels = surviving.view_as(probabilities).max(1)
    order = confidence.argsort(descending=True, stable=True)
    order = order[confidence[order] >= 0][:count]
    found = select_best_boxes(boxes, probabilities, count, 0.3)
    assert all(map(torch.equal, found, (order, labels[order], confidence[order])))


@given(
    num=st.integers(1, 30),
    num_classes=st.integers(1, 6),
    limits=st.sampled_from([(5, 5), (2, 9), (1, 1), (10, 100)]),
    seed=st.integers(0, 10**6),
)
def test_regions_are_those_that_the_published_script_keeps(
    num: int, num_classes: int, limits: tuple[int, int], seed: int
) -> None:
    boxes, probabilities = (each.double() for each in random_boxes(num, num_classes, seed))
    confidence = box_confidences(include_last_pixel(boxes), probabilities, 0.3)
    with_none = torch.cat([1 - probabilities.sum(1, keepdim=True), probabilities], 1)
    kept, expected = caffe.select(boxes.tolist(), with_none.tolist(), *limits)
    assert confidence.tolist() == expected
    assert select_by_threshold(confidence, 0.2, *limits).tolist() == kept


def test_as_many_as_wanted_stay_in_their_order() -> None:
    confidence = torch.tensor([0.3, 0.1, 0.9, 0.2, 0.4])
    assert select_by_threshold(confidence, 0.2, 4, 4).tolist() == [0, 2, 3, 4]
    assert select_by_threshold(confidence, 0.2, 3, 3).tolist() == [2, 4, 0]
    assert select_by_threshold(confidence, 0.2, 5, 5).tolist() == [2, 4, 0, 3, 1]


@dataclass(frozen=True)
class Selection:
    num_regions: int = 6
    whole_picture: bool = True
    class_overlap: float = 0.3
    any_overlap: float = 0.7


BOXES = torch.tensor([[0.0, 0, 10, 10], [1, 0, 10, 10], [20, 5, 90, 30], [30, 30, 33, 60], [-5, 20, 15, 200]])
PROBABILITIES = torch.tensor([[0.5, 0.1], [0.6, 0.2], [0.1, 0.9], [0.9, 0.9], [0.3, 0.2]])


def regions(config: Selection, boxes: Tensor = BOXES, probabilities: Tensor = PROBABILITIES) -> SelectedRegions:
    return select_regions(boxes, probabilities, (50, 80), config)


def test_the_picture_comes_first_then_the_surest_within_it() -> None:
    found = regions(Selection())
    # The first box is the second's place once more, and the fourth is too thin.
    expected = [[0, 0, 80, 50], [20, 5, 80, 30], [1, 0, 10, 10], [0, 20, 15, 50]]
    assert found.boxes[0].tolist() == [*expected, [0] * 4, [0] * 4]
    assert found.labels[0].tolist() == [2, 1, 0, 0, 0, 0]
    assert found.confidence[0].tolist() == pytest.approx([1, 0.9, 0.6, 0.3, 0, 0])
    assert found.mask[0].tolist() == [True] * 4 + [False] * 2


def test_the_picture_takes_one_of_the_places_or_none() -> None:
    assert regions(Selection(num_regions=2)).boxes[0].tolist() == [[0, 0, 80, 50], [20, 5, 80, 30]]
    without = regions(replace(Selection(num_regions=2), whole_picture=False))
    assert without.boxes[0].tolist() == [[20, 5, 80, 30], [1, 0, 10, 10]]


def test_without_boxes_the_picture_is_the_only_region() -> None:
    found = regions(Selection(), torch.zeros(0, 4), torch.zeros(0, 2))
    assert found.mask[0].tolist() == [True] + [False] * 5
