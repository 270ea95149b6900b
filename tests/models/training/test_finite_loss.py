"""A loss that is no number stops a training before a weight changes."""

import math

import pytest
import torch

from models.training.finite_loss import finite_sum
from models.training.recipes import Diverged


def test_the_sum_of_losses_carries_their_gradients() -> None:
    weight = torch.tensor([2.0, 3.0], requires_grad=True)
    total = finite_sum({"one": weight[0] ** 2, "two": 4 * weight[1]})
    total.backward()
    assert (total.item(), weight.grad.tolist() if weight.grad is not None else None) == (16.0, [4.0, 4.0])


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_no_number_is_named(wrong: float) -> None:
    with pytest.raises(Diverged, match=r"\(ranking 0\.5, pooled .*learning rate is too high"):
        finite_sum({"ranking": torch.tensor(0.5), "pooled": torch.tensor(wrong)})
