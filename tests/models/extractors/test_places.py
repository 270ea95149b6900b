"""From boxes to the regions of a picture."""

from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from models.extractors.places import Places, places


@dataclass(frozen=True)
class Wanted:
    num_regions: int = 6
    whole_picture: bool = True
    class_overlap: float = 0.3
    any_overlap: float = 0.7


BOXES = torch.tensor([[0.0, 0, 10, 10], [1, 0, 10, 10], [20, 5, 90, 30], [30, 30, 33, 60], [-5, 20, 15, 200]])
PROBABILITIES = torch.tensor([[0.5, 0.1], [0.6, 0.2], [0.1, 0.9], [0.9, 0.9], [0.3, 0.2]])


def regions(wanted: Wanted, boxes: Tensor = BOXES, probabilities: Tensor = PROBABILITIES) -> Places:
    return places(boxes, probabilities, (50, 80), wanted)


def test_the_picture_comes_first_then_the_surest_within_it() -> None:
    found = regions(Wanted())
    # The first box is the second's place once more, and the fourth is too thin.
    expected = [[0, 0, 80, 50], [20, 5, 80, 30], [1, 0, 10, 10], [0, 20, 15, 50]]
    assert found.boxes[0].tolist() == [*expected, [0] * 4, [0] * 4]
    assert found.labels[0].tolist() == [2, 1, 0, 0, 0, 0]
    assert found.confidence[0].tolist() == pytest.approx([1, 0.9, 0.6, 0.3, 0, 0])
    assert found.mask[0].tolist() == [True] * 4 + [False] * 2


def test_the_picture_takes_one_of_the_places_or_none() -> None:
    assert regions(Wanted(num_regions=2)).boxes[0].tolist() == [[0, 0, 80, 50], [20, 5, 80, 30]]
    without = regions(replace(Wanted(num_regions=2), whole_picture=False))
    assert without.boxes[0].tolist() == [[20, 5, 80, 30], [1, 0, 10, 10]]


def test_without_boxes_the_picture_is_the_only_region() -> None:
    found = regions(Wanted(), torch.zeros(0, 4), torch.zeros(0, 2))
    assert found.mask[0].tolist() == [True] + [False] * 5
