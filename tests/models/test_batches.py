"""Batches as values."""

from dataclasses import dataclass

import numpy as np
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


def test_arrays_become_regions_all_real_without_a_mask() -> None:
    arrays = np.arange(12.0).reshape(2, 2, 3)
    whole = Regions.from_arrays(arrays)
    assert torch.equal(whole.vectors, regions(2).vectors)
    assert whole.mask.all()
    assert Regions.from_arrays(arrays, np.array([[1, 0], [1, 1]])).mask.tolist() == [[True, False], [True, True]]


@pytest.mark.parametrize(
    ("arrays", "mask", "message"),
    [
        (np.zeros((2, 3)), None, r"features are \[pictures, regions, numbers\].*not \(2, 3\)"),
        (np.zeros((2, 3, 4)), np.ones((2, 4)), r"their mask .*not \(2, 3, 4\) and \(2, 4\)"),
        (
            np.where(np.arange(24).reshape(2, 3, 4) == 20, np.nan, 0.0),
            None,
            "picture 1 holds numbers that are not finite",
        ),
    ],
)
def test_arrays_of_something_else_are_refused(arrays: np.ndarray, mask: np.ndarray | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Regions.from_arrays(arrays, mask)


@pytest.mark.usefixtures("two_threads")
def test_the_gradient_of_rows_taken_several_times_is_the_same_every_time() -> None:
    torch.manual_seed(0)
    whole = Two(torch.randn(64, 36, 64, requires_grad=True), torch.ones(64))
    rows, weights = torch.randint(0, 8, (192,)), torch.randn(192, 36, 64)

    def gradient() -> Tensor:
        (taken,) = torch.autograd.grad((whole[rows].left * weights).sum(), whole.left)
        return taken

    first = gradient()
    expected = torch.stack([weights[rows == row].sum(0) for row in range(64)])
    torch.testing.assert_close(first, expected, rtol=1e-5, atol=1e-5)
    assert all(torch.equal(gradient(), first) for _ in range(20))  # by two threads at once, each sum would vary
