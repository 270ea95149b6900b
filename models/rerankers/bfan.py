"""BFAN: Bidirectional Focal Attention (Liu et al., ACM MM 2019), as the published code computes it.

Every query (a word among regions, a region among words) attends to the fragments of the other side, keeps those
whose weight stands out from all of them, and is compared with what it kept; the two directions' means are added.
The code puts LeakyReLU(0.1) and SCAN's l2 normalisation over the queries before the softmax; the paper does not.

The focal test sum_j (p_i - p_j) g_j > 0 is p_i sum_j g_j > sum_j p_j g_j: n multiplications instead of n squared. No
fragment passes only where all weights are equal; the code then divides 0 by 0. Here such a query keeps them all:
rounding decides whether none or a few of equal weights pass, and where the fragments themselves are the same
this answer alone does not depend on it. A lone fragment is thus attended to.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from models.batches import Regions, Rows, Words
from models.rerankers.attention import (
    EPSILON,
    cosine,
    gram,
    length,
    similarities,
    squared_sum_of_regions,
    squared_sum_of_words,
    weights_up_to_scale,
)
from models.rerankers.base import Explanation, Reranker
from models.rerankers.encoders import EncoderConfig, RegionEncoder, SentenceEncoder

Focal = Literal["prob", "equal"]


@dataclass(frozen=True, kw_only=True)
class BfanConfig:
    """`prob` weighs the fragments compared with by the roots of their weights, `equal` by 1."""

    focal: Focal = "prob"
    similarity: Literal["clipped_l2norm", "cosine"] = "clipped_l2norm"  # the published code's; the paper's eq. 6
    lambda_softmax: float = 20.0


@dataclass(frozen=True)
class BfanImages(Rows):
    """Encoded pictures: region vectors (zero where padded) and the inner products of all their pairs."""

    vectors: Float[Tensor, "K R D"]
    gram: Float[Tensor, "K R R"]
    mask: Bool[Tensor, "K R"]


def focused(weights: Float[Tensor, "*shape"], mask: Bool[Tensor, "*#shape"], focal: Focal, dim: int) -> Tensor:
    """Attention weights along `dim` without those that do not stand out; a factor of all of them changes nothing.

    Padded places weigh nothing and are compared with nothing.
    """
    weights = weights.masked_fill(~mask, 0)
    fixed = weights.detach()  # what is kept is a step: no gradient flows through the choice
    worth = fixed.sqrt() if focal == "prob" else mask.to(fixed.dtype)
    total, least = worth.sum(dim, keepdim=True), (fixed * worth).sum(dim, keepdim=True)
    # None stands out where not even the largest does: then all do.
    least = least.masked_fill(fixed.amax(dim, keepdim=True) * total <= least, -1)
    return weights.masked_fill(fixed * total <= least, 0)


class Bfan(Reranker):
    """`bfan-prob` and `bfan-equal`."""

    images_type: ClassVar[type[Rows]] = BfanImages

    def __init__(self, config: BfanConfig, encoders: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.region_encoder: nn.Module = RegionEncoder(encoders)
        self.sentence_encoder: nn.Module = SentenceEncoder(encoders)

    def precompute(self, projected: Regions) -> BfanImages:
        vectors = projected.vectors.masked_fill(~projected.mask.unsqueeze(-1), 0)
        return BfanImages(vectors, gram(vectors), projected.mask)

    def score(self, images: BfanImages, words: Words) -> Float[Tensor, "Q K"]:  # type: ignore[override]
        shares, _ = self._shares(images, words)
        return shares.sum(2).T

    def explain(self, images: BfanImages, words: Words) -> Explanation:  # type: ignore[override]
        shares, by_words = self._shares(images, words)
        attention = by_words / by_words.sum(1, keepdim=True)
        return Explanation("words attend regions", attention.permute(2, 0, 3, 1), shares.permute(1, 0, 2))

    def _shares(self, images: BfanImages, words: Words) -> tuple[Float[Tensor, "K Q W"], Float[Tensor, "K R Q W"]]:
        """What every word gives to the score: its own relevance and, because a region's relevance
        <v, sum_w a_w e_w> / (|v| |sum_w a_w e_w|) is a sum over words, its part of each. And where words look."""
        raw, vectors = similarities(images.vectors, words)
        word_lengths, region_lengths = vectors.norm(dim=-1), images.vectors.norm(dim=-1)[:, :, None, None]
        real_words, real_regions = words.mask[None, None], images.mask[:, :, None, None]
        over_words, over_regions = self._logits(raw, region_lengths * word_lengths)
        by_words = self._attention(over_words, real_regions, dim=1)
        by_regions = self._attention(over_regions, real_words, dim=3)
        of_words = cosine((by_words * raw).sum(1), squared_sum_of_regions(by_words, images.gram), word_lengths)
        squared = squared_sum_of_words(by_regions, gram(vectors)).unsqueeze(-1)
        of_regions = cosine(by_regions * raw, squared, region_lengths).sum(1)
        num_words, num_regions = words.mask.sum(1).clamp_min(1), images.mask.sum(1).clamp_min(1)
        return of_words / num_words[:, None] + of_regions / num_regions[:, None, None], by_words

    def _logits(
        self, raw: Float[Tensor, "K R Q W"], lengths: Float[Tensor, "K R Q W"]
    ) -> tuple[Float[Tensor, "K R Q W"], Float[Tensor, "K R Q W"]]:
        """What words compare regions by, and what regions compare words by."""
        times = self.config.lambda_softmax
        if self.config.similarity == "cosine":
            cosines = raw * (times / lengths.clamp_min(EPSILON))
            return cosines, cosines
        clipped = leaky_relu(raw, 0.1)
        return clipped * (times / (length(clipped, 3) + EPSILON)), clipped * (times / (length(clipped, 1) + EPSILON))

    def _attention(
        self, logits: Float[Tensor, "K R Q W"], mask: Bool[Tensor, "..."], dim: int
    ) -> Float[Tensor, "K R Q W"]:
        """Focal attention over the real fragments along `dim`, up to a factor of each query's own."""
        weights = weights_up_to_scale(logits, self.config.lambda_softmax, mask, dim)
        return focused(weights, mask, self.config.focal, dim)
