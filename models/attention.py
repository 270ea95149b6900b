"""Pure functions that several models share. Masks are meant: a padded place weighs nothing."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

# Added outside the root, as the published code of SCAN and BFAN does: x / (|x| + EPSILON).
EPSILON = 1e-8


def unit(vectors: Float[Tensor, "*rows D"], dim: int = -1) -> Float[Tensor, "*rows D"]:
    """x / (|x| + 1e-8) along `dim`; a row of zeros stays zero."""
    # The root's gradient at zero is infinite, and padding is zero: the clamp keeps it finite
    # without moving any norm that float32 can tell from zero.
    norm = vectors.square().sum(dim, keepdim=True).clamp_min(1e-30).sqrt()
    return vectors / (norm + EPSILON)


def masked_mean(values: Float[Tensor, "*batch N D"], mask: Bool[Tensor, "*batch N"]) -> Float[Tensor, "*batch D"]:
    """Mean over the real ones of N rows; zeros where there is none."""
    count = mask.sum(-1, keepdim=True).clamp_min(1)
    return torch.where(mask.unsqueeze(-1), values, 0).sum(-2) / count


def masked_softmax(logits: Float[Tensor, "*shape"], mask: Bool[Tensor, "*#shape"], dim: int) -> Float[Tensor, "*shape"]:
    """Softmax over the real places of `dim`; a row without any is all zeros, not NaN."""
    masked = logits.masked_fill(~mask, -torch.inf)
    peak = masked.amax(dim, keepdim=True)
    weights = (masked - torch.where(peak.isfinite(), peak, 0)).exp()
    return weights / weights.sum(dim, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny)


def gram(vectors: Float[Tensor, "*batch N D"]) -> Float[Tensor, "*batch N N"]:
    """Inner products of all pairs of rows: with it |sum_i a_i v_i|^2 = a' gram a needs no D."""
    return vectors @ vectors.mT
