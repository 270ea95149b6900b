"""Attention and norms that several models share. Padding has weight 0."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from models.batches import Words
from models.rerankers.products import Linear, product_of_rows

# Added outside the root, as in the published code of SCAN and BFAN: x / (|x| + EPSILON).
EPSILON = 1e-8
# exp(-30) squared is still a thousand times the least squared length.
LARGEST_EXPONENT = 30.0
FEW_COLUMNS = 64


def l2_normalise(vectors: Float[Tensor, "*rows D"], dim: int = -1) -> Float[Tensor, "*rows D"]:
    """x / (|x| + 1e-8) along `dim`; a row of zeros stays zero, and its gradient is zero."""
    lengths = l2_norm(vectors, dim) + EPSILON
    if torch.is_grad_enabled():  # else the gradient would have a factor of 1e8
        lengths = lengths.masked_fill(~vectors.any(dim, keepdim=True), torch.inf)
    return vectors / lengths


def l2_norm(vectors: Float[Tensor, "*rows D"], dim: int = -1) -> Float[Tensor, "..."]:
    """|x| along `dim`, which is kept with length 1; its gradient is zero at zero vectors, such as padding."""
    if vectors.stride(dim) == 1:  # elsewhere PyTorch has no vectorised loop for it
        norm: Tensor = torch.linalg.vector_norm(vectors, dim=dim, keepdim=True)
        return norm
    # The root's gradient at zero is infinite: the clamp keeps it finite without changing any norm that differs from
    # zero in float32.
    return vectors.square().sum(dim, keepdim=True).clamp_min(1e-30).sqrt()


def zero_padded(vectors: Float[Tensor, "*batch N D"], mask: Bool[Tensor, "*batch N"]) -> Float[Tensor, "*batch N D"]:
    """The vectors with zeros in place of padding."""
    return vectors.masked_fill(~mask.unsqueeze(-1), 0)


def masked_mean(values: Float[Tensor, "*batch N D"], mask: Bool[Tensor, "*batch N"]) -> Float[Tensor, "*batch D"]:
    """Mean over the real ones of N rows; zeros if there are none."""
    count = mask.sum(-1, keepdim=True).clamp_min(1)
    return zero_padded(values, mask).sum(-2) / count


def masked_softmax(logits: Float[Tensor, "*shape"], mask: Bool[Tensor, "*#shape"], dim: int) -> Float[Tensor, "*shape"]:
    """Softmax over the real places of `dim`; a row without any is all zeros, not NaN."""
    masked = logits.masked_fill(~mask, -torch.inf)
    peak = masked.amax(dim, keepdim=True)
    return shares_of_sum((masked - torch.where(peak.isfinite(), peak, 0)).exp(), dim)


def shares_of_sum(weights: Float[Tensor, "*shape"], dim: int) -> Float[Tensor, "*shape"]:
    """Weights of 0 or more over their sum along `dim`; a row of zeros stays zero."""
    return weights / weights.sum(dim, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny)


def weights_up_to_scale(
    logits: Float[Tensor, "*shape"], bound: float | None, mask: Bool[Tensor, "*#shape"], dim: int
) -> Float[Tensor, "*shape"]:
    """Softmax along `dim` without its denominator, for results that a common factor of all weights does not change.

    `bound` is the largest possible logit; if its exponential could overflow, or it is None, the whole softmax is
    computed. Padding may get a weight, which has no effect because its vectors are zeros.
    """
    # These weights are squared and summed over pairs.
    largest = math.log(torch.finfo(logits.dtype).max) / 2 - math.log(logits.shape[dim])
    if bound is None or bound > min(largest, LARGEST_EXPONENT):
        return masked_softmax(logits, mask, dim)
    return logits.exp()


def gram_matrix(vectors: Float[Tensor, "*batch N D"]) -> Float[Tensor, "*batch N N"]:
    """Inner products of all pairs of rows: with it |sum_i a_i v_i|^2 = a' gram a needs no D."""
    return vectors @ vectors.mT


def inner_products(regions: Float[Tensor, "K R D"], vectors: Float[Tensor, "N D"]) -> Float[Tensor, "K R N"]:
    """Inner products of all regions with N other vectors, in one matrix product.

    For small N the other vectors are the rows, since a product with few columns has half the speed of one with few
    rows. The result is then a view of the transposed product.
    """
    if len(vectors) >= FEW_COLUMNS:
        return product_of_rows(regions, vectors)
    product = product_of_rows(vectors, regions.flatten(0, 1))
    return product.view(len(vectors), *regions.shape[:2]).permute(1, 2, 0)


def similarities(
    regions: Float[Tensor, "K R D"], words: Words
) -> tuple[Float[Tensor, "K R Q W"], Float[Tensor, "Q W D"]]:
    """Inner products of all regions and words in one matrix product, and the words with zeros for padding."""
    vectors = zero_padded(words.vectors, words.mask)
    product = inner_products(regions, vectors.flatten(0, 1))
    return product.view(*product.shape[:2], *vectors.shape[:2]), vectors


def attended_cosine(
    inner: Float[Tensor, "*shape"],
    squared_length: Float[Tensor, "*#shape"],
    query_length: Float[Tensor, "*#shape"],
) -> Float[Tensor, "*shape"]:
    """Cosine of a query and the vector it attends to, from their inner product, the attended vector's squared length
    and the query's length."""
    # The clamp inside the root keeps its gradient finite, also if rounding makes a square negative. A vector of zeros
    # has inner products of zero, so that any clamp of the product gives 0; this one changes no other cosine.
    both = (squared_length.clamp_min(1e-30).sqrt() * query_length).clamp_min(1e-30)
    if torch.is_grad_enabled():  # the gradient is zero for a vector of zeros, instead of divided by almost nothing
        both = both.masked_fill((squared_length == 0) | (query_length == 0), torch.inf)
    return inner / both


def squared_sum_of_regions(
    attention: Float[Tensor, "K R Q W"], region_gram: Float[Tensor, "K R R"]
) -> Float[Tensor, "K Q W"]:
    """Squared length of the weighted sum of regions that every word attends to, without building that sum."""
    return (attention * (region_gram @ attention.flatten(2)).view_as(attention)).sum(1)


def squared_sum_of_words(
    attention: Float[Tensor, "K R Q W"], word_gram: Float[Tensor, "Q W W"]
) -> Float[Tensor, "K R Q"]:
    """Squared length of the weighted sum of words that every region attends to, without building that sum."""
    by_sentence = attention.permute(2, 0, 1, 3)
    attended = (by_sentence.flatten(1, 2) @ word_gram).view_as(by_sentence)
    return (by_sentence * attended).sum(3).permute(1, 2, 0)


def cosine_terms_of_regions(
    weights: Float[Tensor, "K R Q W"],
    raw: Float[Tensor, "K R Q W"],
    region_gram: Float[Tensor, "K R R"],
    word_lengths: Float[Tensor, "Q W"],
) -> Float[Tensor, "K R Q W"]:
    """Each region's part of the cosine of a word with its attended sum of regions; the parts add up to the cosine.

    `raw` are the inner products of regions and words.
    """
    return attended_cosine(weights * raw, squared_sum_of_regions(weights, region_gram).unsqueeze(1), word_lengths)


def cosine_terms_of_words(
    weights: Float[Tensor, "K R Q W"],
    raw: Float[Tensor, "K R Q W"],
    word_gram: Float[Tensor, "Q W W"],
    region_lengths: Float[Tensor, "K R"],
) -> Float[Tensor, "K R Q W"]:
    """Each word's part of the cosine of a region with its attended sum of words; the parts add up to the cosine.

    `raw` are the inner products of regions and words.
    """
    squared = squared_sum_of_words(weights, word_gram).unsqueeze(-1)
    return attended_cosine(weights * raw, squared, region_lengths[:, :, None, None])


def tanh_logits(doubled: Float[Tensor, "*batch D"], weight: Float[Tensor, " D"]) -> Float[Tensor, "*batch"]:
    """weight . tanh(doubled / 2), up to a constant, which does not change a softmax.

    tanh(x) = 2 sigmoid(2x) - 1, and on CPU torch's sigmoid takes a sixth of the time of its tanh.
    """
    return doubled.sigmoid() @ (2 * weight)


class AdditiveAttention(nn.Module):
    """The layers of one step of SMAN's additive attention: W for the keys, Wq for the query, w for the logits."""

    def __init__(self, key_width: int, width: int) -> None:
        super().__init__()
        self.keys = Linear(key_width, width)
        self.query = Linear(width, width)
        self.weight = nn.Linear(width, 1, bias=False)

    def product_inside_tanh(self, keys: Float[Tensor, "*keys N D"], query: Float[Tensor, "*queries D"]) -> Tensor:
        """w . tanh(key * tanh(Wq query)) of every key, up to a constant; the first axes are broadcast."""
        return tanh_logits(keys * self.doubled_query(query).unsqueeze(-2), self.weight.weight[0])

    def product_outside_tanh(
        self, keys: Float[Tensor, "Q N D"], queries: Float[Tensor, "Q K D"]
    ) -> Float[Tensor, "Q K N"]:
        """w . (tanh(key) * tanh(Wq query)) of every key and query of a batch."""
        return self.weighed_query(queries) @ keys.tanh().mT

    def doubled_query(self, query: Float[Tensor, "*queries D"]) -> Float[Tensor, "*queries D"]:
        """2 tanh(Wq query)"""
        doubled: Tensor = 4 * (2 * self.query(query)).sigmoid() - 2  # as in `tanh_logits`
        return doubled

    def weighed_query(self, query: Float[Tensor, "*queries D"]) -> Float[Tensor, "*queries D"]:
        """w * tanh(Wq query)"""
        weighed: Tensor = self.doubled_query(query) * (self.weight.weight[0] / 2)
        return weighed
