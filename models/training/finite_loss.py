"""The loss of a training step, which must be a number that something can be learnt from."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from models.training.recipes import Diverged


def finite_sum(losses: Mapping[str, Tensor]) -> Float[Tensor, ""]:
    """The sum of a step's losses. Diverged where it is not finite, since every weight would come to be so too."""
    total = torch.stack(list(losses.values())).sum()
    if not total.isfinite():
        found = ", ".join(f"{name} {float(loss.detach()):g}" for name, loss in losses.items())
        raise Diverged(
            f"the loss of a step is not finite ({found}): a learning rate is too high, or a photograph or a weight"
            " holds numbers that are not finite; the last checkpoint is as it was"
        )
    return total
