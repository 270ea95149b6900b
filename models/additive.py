"""Additive attention, which CAAN and SMAN share: logits that are weighted sums of tanh."""

from jaxtyping import Float
from torch import Tensor


def tanh_logits(doubled: Float[Tensor, "*batch D"], weight: Float[Tensor, " D"]) -> Float[Tensor, "*batch"]:
    """weight . tanh(doubled / 2) and a constant more, which a softmax does not see.

    tanh(x) = 2 sigmoid(2x) - 1, and on CPU torch's sigmoid takes a sixth of the time of its tanh.
    """
    return doubled.sigmoid() @ (2 * weight)
