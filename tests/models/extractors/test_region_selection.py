"""Which boxes become regions."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torchvision.ops import box_iou, nms

from models.extractors.bottom_up.proposals import closed
from models.extractors.region_selection import between, choose, confidences, distinct, surviving
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
    chosen = choose(boxes, probabilities, count, 0.3)
    expected = chosen_in_loops(boxes, probabilities, count, 0.3)
    assert list(zip(chosen.indices.tolist(), chosen.labels.tolist(), strict=True)) == expected
    assert torch.equal(chosen.confidence, probabilities[chosen.indices, chosen.labels])


def test_a_box_hidden_in_every_class_is_not_chosen() -> None:
    boxes = torch.tensor([[0.0, 0, 10, 10], [0, 0, 10, 9.5]])
    probabilities = torch.tensor([[0.6, 0.3], [0.5, 0.2]])
    assert choose(boxes, probabilities, 36, 0.3).indices.tolist() == [0]


@given(num=st.integers(1, 30), seed=st.integers(0, 10**6))
def test_distinct_boxes_overlap_little_and_cover_the_rest(num: int, seed: int) -> None:
    boxes, probabilities = random_boxes(num, 3, seed)
    kept = distinct(boxes, probabilities, 0.5)
    overlaps = box_iou(boxes, boxes[kept])
    assert (overlaps[kept].fill_diagonal_(0) <= 0.5).all()
    fallen = [box for box in range(num) if box not in kept.tolist()]
    assert (overlaps[fallen].amax(1) > 0.5).all() if fallen else True


@given(num=st.integers(1, 30), num_classes=st.integers(1, 6), seed=st.integers(0, 10**6))
def test_surviving_is_suppression_class_by_class(num: int, num_classes: int, seed: int) -> None:
    boxes, probabilities = (each.double() for each in random_boxes(num, num_classes, seed))
    standing = surviving(boxes, probabilities, 0.3)
    for label in range(num_classes):
        assert standing[:, label].nonzero()[:, 0].tolist() == sorted(nms(boxes, probabilities[:, label], 0.3).tolist())


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
    confidence = confidences(closed(boxes), probabilities, 0.3)
    with_none = torch.cat([1 - probabilities.sum(1, keepdim=True), probabilities], 1)
    kept, expected = caffe.select(boxes.tolist(), with_none.tolist(), *limits)
    assert confidence.tolist() == expected
    assert between(confidence, 0.2, *limits).tolist() == kept


def test_as_many_as_wanted_stay_in_their_order() -> None:
    confidence = torch.tensor([0.3, 0.1, 0.9, 0.2, 0.4])
    assert between(confidence, 0.2, 4, 4).tolist() == [0, 2, 3, 4]
    assert between(confidence, 0.2, 3, 3).tolist() == [2, 4, 0]
    assert between(confidence, 0.2, 5, 5).tolist() == [2, 4, 0, 3, 1]
