"""BFAN: Bidirectional Focal Attention (Liu et al., ACM MM 2019), after the published code.

Every query (a word among regions, a region among words) attends to the fragments of the other side, keeps those with
outstanding weights, and is compared with their weighted sum; the means of both directions are added. The code applies
LeakyReLU(0.1) and SCAN's l2 normalisation over the queries before the softmax; the paper does not.

The focal test sum_j (p_i - p_j) g_j > 0 is p_i sum_j g_j > sum_j p_j g_j: n multiplications instead of n squared. It
selects the weights above their mean, weighted by g. If all weights are equal, no fragment passes; the code then divides
0 by 0, or keeps the few that rounding made larger. Decided here: weights count as equal, and all fragments are kept, if
the largest exceeds the mean by at most TIE_TOLERANCE of it:

    max_i p_i sum_j g_j <= (1 + TIE_TOLERANCE) sum_j p_j g_j

docs/models/bfan.md says why, and why a lone query is normalised by its size without the code's 1e-8.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torch.nn.functional import leaky_relu

from models.batches import Regions, Words
from models.kernels.forms import KernelForm
from models.rerankers.attention import (
    EPSILON,
    LARGEST_EXPONENT,
    attended_cosine,
    cosine_terms_of_regions,
    cosine_terms_of_words,
    gram_matrix,
    l2_norm,
    shares_of_sum,
    similarities,
    squared_sum_of_regions,
    weights_up_to_scale,
)
from models.rerankers.base import Explanation, RegionsWithGram, Reranker
from models.rerankers.encoders import EncoderConfig, build_encoders

Focal = Literal["prob", "equal"]

TIE_TOLERANCE = 1e-5  # by what share of the mean the largest of equal weights may exceed it


@dataclass(frozen=True, kw_only=True)
class BfanConfig:
    """The options; `prob` weights the compared fragments by the roots of their weights, `equal` by 1."""

    focal: Focal = "prob"
    similarity: Literal["clipped_l2norm", "cosine"] = "clipped_l2norm"  # of the published code; of the paper's eq. 6
    lambda_softmax: float = 20.0


def bfan_kernel_form(config: BfanConfig) -> KernelForm:
    """The score with these options for the kernels."""
    return KernelForm(
        words_attend=True,
        regions_attend=True,
        logits=config.similarity,
        bounded=config.lambda_softmax <= LARGEST_EXPONENT,
        times=config.lambda_softmax,
        focal=config.focal,
        pooling="Mean",
    )


def focal_attention(weights: Float[Tensor, "*shape"], mask: Bool[Tensor, "*#shape"], focal: Focal, dim: int) -> Tensor:
    """Attention weights p along `dim`, zero where the focal test p_i sum_j g_j > sum_j p_j g_j fails.

    No real weight becomes zero if all are equal up to `TIE_TOLERANCE`. A common factor of the weights does not matter.
    Padding has weight 0 and is not compared with.
    """
    weights = weights.masked_fill(~mask, 0)
    p = weights.detach()  # which fragments pass is a step function: no gradient flows through the choice
    g = p.sqrt() if focal == "prob" else mask.to(p.dtype)
    total, threshold = g.sum(dim, keepdim=True), (p * g).sum(dim, keepdim=True)
    is_tie = p.amax(dim, keepdim=True) * total <= threshold * (1 + TIE_TOLERANCE)
    threshold = threshold.masked_fill(is_tie, -1)
    return weights.masked_fill(p * total <= threshold, 0)


class _Attended(NamedTuple):
    """Contributions of words, the words' attention weights over regions, up to a factor for each word, and each word's
    term of the regions' cosines.

    A contribution is the word's cosine over the number of words, plus its terms of the regions' cosines over the number
    of regions, because <v, sum_w a_w e_w> / (|v| |sum_w a_w e_w|) is a sum over words.
    """

    contributions: Float[Tensor, "K Q W"]
    by_words: Float[Tensor, "K R Q W"]
    of_regions: Float[Tensor, "K R Q W"]


def _counts(images: RegionsWithGram, words: Words) -> tuple[Int64[Tensor, " Q"], Int64[Tensor, " K"]]:
    """Numbers of words of each sentence and of regions of each picture."""
    return words.mask.sum(1).clamp_min(1), images.mask.sum(1).clamp_min(1)


def _size(clipped: Float[Tensor, "K R Q W"], real: Bool[Tensor, "..."], dim: int) -> Float[Tensor, "..."]:
    """The length over the queries along `dim` plus the code's EPSILON; without it for a lone real query."""
    length, is_lone = l2_norm(clipped, dim), real.sum(dim, keepdim=True) == 1
    return torch.where(is_lone, length.clamp_min(EPSILON), length + EPSILON)


class Bfan(Reranker[RegionsWithGram]):
    """BFAN, registered as `bfan-prob` and `bfan-equal`."""

    images_type = RegionsWithGram
    block: ClassVar[tuple[int, int]] = (25, 16)  # it needs twice as many tables of all pairs as other models

    def __init__(self, config: BfanConfig, encoders: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.kernel_form = bfan_kernel_form(config)
        self.wide_fields = () if encoders.has_unit_regions else ("gram",)
        self.region_encoder, self.sentence_encoder = build_encoders(encoders)

    def precompute(self, projected: Regions) -> RegionsWithGram:
        return RegionsWithGram.of(projected)

    def score(self, images: RegionsWithGram, words: Words) -> Float[Tensor, "Q K"]:
        return self._attend(images, words).contributions.sum(2).T

    def explain(self, images: RegionsWithGram, words: Words) -> Explanation:
        """The explanation, in which a word and a region share their term of the word's cosine over the number of words,
        plus their term of the region's cosine over the number of regions."""
        attended = self._attend(images, words)
        raw, vectors = similarities(images.vectors, words)
        of_words = cosine_terms_of_regions(attended.by_words, raw, images.gram, vectors.norm(dim=-1))
        num_words, num_regions = _counts(images, words)
        shares = of_words / num_words[:, None] + attended.of_regions / num_regions[:, None, None, None]
        return Explanation(
            "words attend regions",
            shares_of_sum(attended.by_words, dim=1).permute(2, 0, 3, 1),
            attended.contributions.permute(1, 0, 2),
            shares=shares.permute(2, 0, 3, 1),
        )

    def _attend(self, images: RegionsWithGram, words: Words) -> _Attended:
        raw, vectors = similarities(images.vectors, words)
        word_lengths, region_lengths = vectors.norm(dim=-1), images.vectors.norm(dim=-1)
        real_words, real_regions = words.mask[None, None], images.mask[:, :, None, None]
        lengths = region_lengths[:, :, None, None] * word_lengths
        over_words, over_regions = self._logits(raw, lengths, real_regions, real_words)
        by_words = self._attention(over_words, real_regions, dim=1)
        by_regions = self._attention(over_regions, real_words, dim=3)
        of_words = attended_cosine((by_words * raw).sum(1), squared_sum_of_regions(by_words, images.gram), word_lengths)
        of_regions = cosine_terms_of_words(by_regions, raw, gram_matrix(vectors), region_lengths)
        num_words, num_regions = _counts(images, words)
        contributions = of_words / num_words[:, None] + of_regions.sum(1) / num_regions[:, None, None]
        return _Attended(contributions, by_words, of_regions)

    def _logits(
        self,
        raw: Float[Tensor, "K R Q W"],
        lengths: Float[Tensor, "K R Q W"],
        real_regions: Bool[Tensor, "K R 1 1"],
        real_words: Bool[Tensor, "1 1 Q W"],
    ) -> tuple[Float[Tensor, "K R Q W"], Float[Tensor, "K R Q W"]]:
        """Logits of the words' attention over regions, and of the regions' attention over words."""
        times = self.config.lambda_softmax
        if self.config.similarity == "cosine":
            cosines = raw * (times / lengths.clamp_min(EPSILON))
            return cosines, cosines
        clipped = leaky_relu(raw, 0.1)
        over_words, over_regions = _size(clipped, real_words, 3), _size(clipped, real_regions, 1)
        return clipped * (times / over_words), clipped * (times / over_regions)

    def _attention(
        self, logits: Float[Tensor, "K R Q W"], mask: Bool[Tensor, "..."], dim: int
    ) -> Float[Tensor, "K R Q W"]:
        """Focal attention over the real fragments along `dim`, up to a factor for each query."""
        weights = weights_up_to_scale(logits, self.config.lambda_softmax, mask, dim)
        return focal_attention(weights, mask, self.config.focal, dim)
