"""A loss or a gradient that is no number stops a training before a weight changes."""

import math

import pytest
import torch

from models.training.finite_loss import clip_finite, finite_sum
from models.training.recipes import Diverged


def test_the_sum_of_losses_carries_their_gradients() -> None:
    weight = torch.tensor([2.0, 3.0], requires_grad=True)
    total = finite_sum({"one": weight[0] ** 2, "two": 4 * weight[1]})
    total.backward()  # type: ignore[no-untyped-call]
    assert (total.item(), weight.grad.tolist() if weight.grad is not None else None) == (16.0, [4.0, 4.0])


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_no_number_is_named(wrong: float) -> None:
    with pytest.raises(Diverged, match=r"\(ranking 0\.5, pooled .*learning rate or weight decay is too high"):
        finite_sum({"ranking": torch.tensor(0.5), "pooled": torch.tensor(wrong)})


def test_gradients_are_limited_and_none_that_is_no_number_is_taken() -> None:
    weight = torch.tensor([3.0, 4.0], requires_grad=True)
    (weight**2).sum().backward()  # type: ignore[no-untyped-call]
    clip_finite([weight], 1.0)
    assert weight.grad is not None
    assert weight.grad.norm().item() == pytest.approx(1.0, rel=1e-5)
    at_zero = torch.zeros(2, requires_grad=True)
    loss = finite_sum({"root": (0 * at_zero.sqrt()).sum()})  # 0, the slope of which is 0 times infinity
    loss.backward()  # type: ignore[no-untyped-call]
    with pytest.raises(
        Diverged, match="gradients of a step are not finite: a learning rate or weight decay is too high"
    ):
        clip_finite([at_zero], 1.0)
