"""Batches as values."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from models.batches import Regions, Rows


@dataclass(frozen=True)
class Two(Rows):
    left: Tensor
    right: Tensor


def regions(num: int) -> Regions:
    return Regions(torch.arange(num * 6.0).view(num, 2, 3), torch.ones(num, 2, dtype=torch.bool))


def test_slices_and_joins_are_inverse() -> None:
    whole = regions(5)
    again = Regions.cat([whole[:2], whole[[2]], whole[torch.tensor([3, 4])]])
    assert torch.equal(again.vectors, whole.vectors)
    assert torch.equal(again.mask, whole.mask)


def test_a_dtype_changes_floating_tensors_alone() -> None:
    half = regions(2).to(dtype=torch.float16)
    assert half.vectors.dtype == torch.float16
    assert half.mask.dtype == torch.bool


def test_tensors_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="first axis"):
        Two(torch.zeros(2), torch.zeros(3))
