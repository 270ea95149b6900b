"""Pure functions that several models share. Masks are meant: a padded place weighs nothing."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from models.batches import Words

# Added outside the root, as the published code of SCAN and BFAN does: x / (|x| + EPSILON).
EPSILON = 1e-8
# exp(-30) squared is still a thousand times what a squared length is clamped to.
LARGEST_EXPONENT = 30.0


def unit(vectors: Float[Tensor, "*rows D"], dim: int = -1) -> Float[Tensor, "*rows D"]:
    """x / (|x| + 1e-8) along `dim`; a row of zeros stays zero."""
    return vectors / (length(vectors, dim) + EPSILON)


def length(vectors: Float[Tensor, "*rows D"], dim: int = -1) -> Float[Tensor, "..."]:
    """|x| along `dim`, which stays with one place."""
    # The root's gradient at zero is infinite, and padding is zero: the clamp keeps it finite
    # without moving any norm that float32 can tell from zero.
    return vectors.square().sum(dim, keepdim=True).clamp_min(1e-30).sqrt()


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


def weights_up_to_scale(
    logits: Float[Tensor, "*shape"], bound: float | None, mask: Bool[Tensor, "*#shape"], dim: int
) -> Float[Tensor, "*shape"]:
    """Softmax along `dim` without its denominator, for what does not change with a factor of all weights.

    `bound` is how large a logit can be; where exponentials so large could overflow (or it is None) it is a whole
    softmax. Padded places may weigh something: to vectors of zeros, which they stand for, it makes no difference.
    """
    # Such weights are squared and added up in pairs.
    largest = math.log(torch.finfo(logits.dtype).max) / 2 - math.log(logits.shape[dim])
    if bound is None or bound > min(largest, LARGEST_EXPONENT):
        return masked_softmax(logits, mask, dim)
    return logits.exp()


def gram(vectors: Float[Tensor, "*batch N D"]) -> Float[Tensor, "*batch N N"]:
    """Inner products of all pairs of rows: with it |sum_i a_i v_i|^2 = a' gram a needs no D."""
    return vectors @ vectors.mT


def similarities(
    regions: Float[Tensor, "K R D"], words: Words
) -> tuple[Float[Tensor, "K R Q W"], Float[Tensor, "Q W D"]]:
    """Inner products of all regions and words in one matrix product, and the words with zeros as padding."""
    vectors = words.vectors.masked_fill(~words.mask.unsqueeze(-1), 0)
    product = regions @ vectors.flatten(0, 1).T
    return product.view(*product.shape[:2], *vectors.shape[:2]), vectors


def cosine(
    inner: Float[Tensor, "*shape"],
    squared_length: Float[Tensor, "*#shape"],
    query_length: Float[Tensor, "*#shape"],
) -> Float[Tensor, "*shape"]:
    """Cosine from an inner product, the attended vector's squared length and the query's length."""
    # The clamp inside the root keeps its gradient finite and rounding from making a square negative. A vector of
    # zeros has inner products of zero: any clamp of the product gives 0, and this one leaves all others alone.
    both = squared_length.clamp_min(1e-30).sqrt() * query_length
    return inner / both.clamp_min(1e-30)


def squared_sum_of_regions(
    attention: Float[Tensor, "K R Q W"], region_gram: Float[Tensor, "K R R"]
) -> Float[Tensor, "K Q W"]:
    """Squared length of the sum of regions that every word attends to, which is never built."""
    return (attention * (region_gram @ attention.flatten(2)).view_as(attention)).sum(1)


def squared_sum_of_words(
    attention: Float[Tensor, "K R Q W"], word_gram: Float[Tensor, "Q W W"]
) -> Float[Tensor, "K R Q"]:
    """Squared length of the sum of words that every region attends to, which is never built."""
    by_sentence = attention.permute(2, 0, 1, 3)
    attended = (by_sentence.flatten(1, 2) @ word_gram).view_as(by_sentence)
    return (by_sentence * attended).sum(3).permute(1, 2, 0)
