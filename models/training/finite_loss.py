"""Checks that the loss and the gradients of a training step are finite."""

from collections.abc import Iterable, Mapping

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from models.training.recipes import Diverged

REASONS = (
    "a learning rate or weight decay is too high, or a photograph, its features, a word vector or a weight to start"
    " from holds numbers that are huge or not finite; the last checkpoint is as it was"
)


def finite_sum(losses: Mapping[str, Tensor]) -> Float[Tensor, ""]:
    """The sum of a step's losses. Raises Diverged if it is not finite, since no weight would then remain finite."""
    total = torch.stack(list(losses.values())).sum()
    if not total.isfinite():
        values = ", ".join(f"{name} {float(loss.detach()):g}" for name, loss in losses.items())
        raise Diverged(f"the loss of a step is not finite ({values}): {REASONS}")
    return total


def clip_finite(parameters: Iterable[Tensor], largest: float) -> float:
    """Limit the norm of the gradients of all parameters together, and return the norm before. Raises Diverged if that
    is not finite, which is possible with a finite loss."""
    norm = clip_grad_norm_(parameters, largest)
    if not norm.isfinite():
        raise Diverged(f"the gradients of a step are not finite: {REASONS}")
    return float(norm)
