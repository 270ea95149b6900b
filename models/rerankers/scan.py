"""SCAN: Stacked Cross Attention (Lee et al., ECCV 2018), after the published code.

Where paper and code differ, this follows the code: [x]+ is LeakyReLU(0.1), vectors are assumed to be normalised, and
LogSumExp is not divided by the number of words. The attended vector is never built: with s = <v_r, e_w> and the Gram
matrix G of the attended side, cos(query, sum_i a_i source_i) = a.s / (|query| sqrt(a'Ga)). A common factor of the a_i
does not change it, so the softmax's denominator is left out.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
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
    masked_softmax,
    shares_of_sum,
    similarities,
    squared_sum_of_regions,
    squared_sum_of_words,
    weights_up_to_scale,
)
from models.rerankers.base import Explanation, RegionsWithGram, Reranker
from models.rerankers.encoders import EncoderConfig, build_encoders

Normalisation = Literal["softmax", "l2norm", "clipped_l2norm", "clipped", "no_norm"]
Pooling = Literal["LogSumExp", "Mean", "Max", "Sum"]


@dataclass(frozen=True, kw_only=True)
class ScanConfig:
    """The options of the published code, by their names there."""

    direction: Literal["t2i", "i2t"] = "t2i"  # t2i: words attend regions; i2t: regions attend words
    normalisation: Normalisation = "clipped_l2norm"
    pooling: Pooling = "Mean"
    lambda_softmax: float = 9.0
    lambda_lse: float = 6.0


def largest_logit(config: ScanConfig) -> float | None:
    """The largest possible logit of the attention; None if it is unknown."""
    return None if config.normalisation in ("clipped", "no_norm") else config.lambda_softmax


def scan_kernel_form(config: ScanConfig) -> KernelForm:
    """The score with these options for the kernels."""
    bound = largest_logit(config)
    return KernelForm(
        words_attend=config.direction == "t2i",
        regions_attend=config.direction == "i2t",
        logits=config.normalisation,
        bounded=bound is not None and bound <= LARGEST_EXPONENT,
        times=config.lambda_softmax,
        pooling=config.pooling,
        sharpness=config.lambda_lse,
    )


def attention_logits(
    raw: Float[Tensor, "*shape"], mask: Bool[Tensor, "*#shape"], config: ScanConfig, dim: int
) -> Float[Tensor, "*shape"]:
    """Logits of the attention: similarities normalised along the queries' axis `dim`, with zeros for padding, times
    lambda."""
    how, times = config.normalisation, config.lambda_softmax
    if how == "softmax":
        return times * masked_softmax(raw, mask, dim)
    clipped = leaky_relu(raw, 0.1) if how in ("clipped", "clipped_l2norm") else raw
    if how in ("clipped", "no_norm"):
        return times * clipped
    return clipped * (times / (l2_norm(clipped, dim) + EPSILON))


def pool_relevance(
    relevance: Float[Tensor, "*shape"], mask: Bool[Tensor, "*#shape"], config: ScanConfig, dim: int
) -> Tensor:
    """The score pooled from the relevances of the real queries along `dim`."""
    match config.pooling:
        case "LogSumExp":
            masked = (config.lambda_lse * relevance).masked_fill(~mask, -torch.inf)
            return masked.logsumexp(dim) / config.lambda_lse
        case "Max":
            return relevance.masked_fill(~mask, -torch.inf).amax(dim)
        case "Sum":
            return relevance.masked_fill(~mask, 0).sum(dim)
        case "Mean":
            return relevance.masked_fill(~mask, 0).sum(dim) / mask.expand_as(relevance).sum(dim).clamp_min(1)


class Scan(Reranker[RegionsWithGram]):
    """SCAN, registered as `scan-t2i-*` and `scan-i2t-*`."""

    images_type = RegionsWithGram

    def __init__(self, config: ScanConfig, encoders: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.kernel_form = scan_kernel_form(config)
        self.wide_fields = () if encoders.has_unit_regions else ("gram",)
        self.region_encoder, self.sentence_encoder = build_encoders(encoders)

    def precompute(self, projected: Regions) -> RegionsWithGram:
        return RegionsWithGram.of(projected)

    def score(self, images: RegionsWithGram, words: Words) -> Float[Tensor, "Q K"]:
        relevance, _ = self._attend(images, words)
        if self.config.direction == "t2i":
            return pool_relevance(relevance, words.mask, self.config, dim=2).T
        return pool_relevance(relevance, images.mask.unsqueeze(-1), self.config, dim=1).T

    def explain(self, images: RegionsWithGram, words: Words) -> Explanation:
        relevance, weights = self._attend(images, words)
        by_words = self.config.direction == "t2i"
        mask, dim = (images.mask[:, :, None, None], 1) if by_words else (words.mask, 3)
        weights = weights.masked_fill(~mask, 0)
        attention = shares_of_sum(weights, dim).permute(2, 0, 3, 1)
        kind = "words attend regions" if by_words else "regions attend words"
        if self.config.pooling not in ("Mean", "Sum"):
            return Explanation(kind, attention)
        shares = self._cosine_terms(images, words, weights)
        contributions = relevance.masked_fill(~words.mask, 0) if by_words else shares.sum(1)
        if self.config.pooling == "Mean":
            queries = words.mask if by_words else images.mask.unsqueeze(-1)
            num = queries.sum(1, keepdim=True).clamp_min(1)
            contributions, shares = contributions / num, shares / (num if by_words else num.unsqueeze(-1))
        return Explanation(kind, attention, contributions.permute(1, 0, 2), shares=shares.permute(2, 0, 3, 1))

    def _cosine_terms(
        self, images: RegionsWithGram, words: Words, weights: Float[Tensor, "K R Q W"]
    ) -> Float[Tensor, "K R Q W"]:
        """The terms a_rw s_rw / (|query| |sum_i a_i source_i|) whose sum is each query's cosine."""
        raw, vectors = similarities(images.vectors, words)
        if self.config.direction == "t2i":
            return cosine_terms_of_regions(weights, raw, images.gram, vectors.norm(dim=-1))
        return cosine_terms_of_words(weights, raw, gram_matrix(vectors), images.vectors.norm(dim=-1))

    def _attend(self, images: RegionsWithGram, words: Words) -> tuple[Tensor, Tensor]:
        """Cosine of every query with its attended vector, [K Q W] or [K R Q]; and weights [K R Q W] up to a factor for
        each query, which does not change the cosine."""
        raw, vectors = similarities(images.vectors, words)
        regions_mask, bound = images.mask[:, :, None, None], largest_logit(self.config)
        if self.config.direction == "t2i":
            logits = attention_logits(raw, words.mask, self.config, dim=3)
            weights = weights_up_to_scale(logits, bound, regions_mask, dim=1)
            squared = squared_sum_of_regions(weights, images.gram)
            return attended_cosine((weights * raw).sum(1), squared, vectors.norm(dim=-1)), weights
        logits = attention_logits(raw, regions_mask, self.config, dim=1)
        weights = weights_up_to_scale(logits, bound, words.mask, dim=3)
        squared = squared_sum_of_words(weights, gram_matrix(vectors))
        return attended_cosine((weights * raw).sum(3), squared, images.vectors.norm(dim=-1).unsqueeze(-1)), weights
