"""The two networks that CAMP's authors released (Wang et al., ICCV 2019); the paper's is in camp.py.

Both pass messages from the other side in two steps:
    m = softmax(q k' / sqrt(D)) y                    every fragment's message from the vectors y of the other side
    f = softmax(q''(m) k''(m)' / sqrt(D)) m          attention among the messages of one side
Every f is a weighted sum of y, and only the weights C are computed here, f = C y: with A the first attention, the
second one's logits are A M A', where M = q''(y) k''(y)' is R x R or W x W and does not depend on the other side.
Padding has weight 0; a padding position of a sentence has a query of zeros, so its message is the mean of the regions.

`camp-released` is their full model, `gate_fusion_new`. Unlike the paper's, its gates are one number per fragment,
fragment x and unit message f/|f| are concatenated instead of added, and four attentions pool each side:
    g = sigmoid(<x, f/|f|>),   x' = ReLU(F g [x; f/|f|]) + x,   F = [F_x F_f] without bias
    v* = sum of x' by the mean of four softmaxes of a two-layer network, at unit length; t* likewise
    score = sigmoid(MLP([v*; t*]))
Because g is a number and f = C y, F g [x; f/|f|] = g (F_x x + C F_f y / |f|): both products are precomputed. Only the
D x D layer inside the pooling remains for every fragment of every pair.

`camp-released-attention` is `cross_attention_new`, from which `camp-released` is trained: score = cosine of the mean of
f over the regions and the mean over the words. The authors pad every sentence to 50 positions and average over all 50.
The message of every padding position is the mean of the regions: here one is computed and counts 50 - W times. With
f = C y the means are weighted sums of words and of regions, and inner products give the cosine without building any
message.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import pad

from models.batches import Regions, Rows, Words
from models.rerankers.attention import EPSILON, gram_matrix, l2_normalise, masked_softmax, similarities, zero_padded
from models.rerankers.base import Explanation, Reranker
from models.rerankers.encoders import EncoderConfig, build_encoders
from models.rerankers.products import Linear

# Our names of weights -> the authors', for both networks.
PUBLISHED_NAMES: Mapping[str, str] = {
    "messages.region_key": "img_key_fc",
    "messages.region_query": "img_query_fc",
    "messages.word_key": "txt_key_fc",
    "messages.word_query": "txt_query_fc",
    "messages.of_regions_key": "weighted_img_key_fc",
    "messages.of_regions_query": "weighted_img_query_fc",
    "messages.of_words_key": "weighted_txt_key_fc",
    "messages.of_words_query": "weighted_txt_query_fc",
    "region_fusion": "fc_1.0",
    "word_fusion": "fc_2.0",
    "region_pool.0": "final_reduce_1.linear.0",
    "region_pool.2": "final_reduce_1.linear.2",
    "word_pool.0": "final_reduce_2.linear.0",
    "word_pool.2": "final_reduce_2.linear.2",
    "scorer.0": "fc_out.0",
    "scorer.2": "fc_out.3",
}


@dataclass(frozen=True)
class MessageWeights:
    """The messages between K pictures and Q sentences, as weights of the vectors whose sums they are."""

    inner_products: Float[Tensor, "K Q R W"]  # of regions and words
    attention: Float[Tensor, "K Q W R"]  # the first attention, of words over regions
    by_regions: Float[Tensor, "K Q R W"]  # C for every region's message, a sum of words
    by_words: Float[Tensor, "K Q W R"]  # C for every word's message, a sum of regions


class Messages(nn.Module):
    """Both attentions of both sides, with the authors' eight projections."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = 1 / math.sqrt(width)
        self.region_key = nn.Linear(width, width, bias=False)
        self.region_query = nn.Linear(width, width, bias=False)
        self.word_key = nn.Linear(width, width, bias=False)
        self.word_query = nn.Linear(width, width, bias=False)
        self.of_regions_key = nn.Linear(width, width, bias=False)
        self.of_regions_query = nn.Linear(width, width, bias=False)
        self.of_words_key = nn.Linear(width, width, bias=False)
        self.of_words_query = nn.Linear(width, width, bias=False)

    def affinity_of_regions(self, vectors: Float[Tensor, "K R D"]) -> Float[Tensor, "K R R"]:
        """M of messages that are sums of regions."""
        return torch.matmul(self.of_regions_query(vectors), self.of_regions_key(vectors).mT)

    def affinity_of_words(self, vectors: Float[Tensor, "Q W D"]) -> Float[Tensor, "Q W W"]:
        """M of messages that are sums of words."""
        return torch.matmul(self.of_words_query(vectors), self.of_words_key(vectors).mT)

    def forward(
        self,
        regions: Float[Tensor, "K R D"],
        affinity: Float[Tensor, "K R R"],
        regions_mask: Bool[Tensor, "K R"],
        words: Words,
    ) -> MessageWeights:
        """The weights of all messages; `affinity` is `affinity_of_regions(regions)`, and padding is zeros."""
        vectors = words.vectors
        # <q(t), W_k v> = <W_k' q(t), v>: the projections are folded into the words, so that one product of regions and
        # words gives the logits of both attentions and the inner products.
        folded = (
            vectors,
            self.word_query(vectors) @ self.region_key.weight,
            self.word_key(vectors) @ self.region_query.weight,
        )
        product, _ = similarities(regions, Words(torch.cat(folded), words.mask.repeat(3, 1)))
        inner_products, to_words, to_regions = product.permute(0, 2, 1, 3).chunk(3, dim=1)
        real_words, real_regions = words.mask[None, :, None], regions_mask[:, None, None]
        of_regions = masked_softmax(self.scale * to_words.mT, real_regions, dim=3)
        of_words = masked_softmax(self.scale * to_regions, real_words, dim=3)
        return MessageWeights(
            inner_products,
            of_regions,
            self._second_attention(of_words, self.affinity_of_words(vectors)[None], real_regions),
            self._second_attention(of_regions, affinity[:, None], real_words),
        )

    def _second_attention(
        self,
        messages: Float[Tensor, "K Q N M"],
        affinity: Float[Tensor, "#K #Q M M"],
        mask: Bool[Tensor, "#K #Q 1 N"],
    ) -> Float[Tensor, "K Q N M"]:
        """Attention of N messages, each given as weights of M vectors, to the real ones among them."""
        logits = self.scale * (messages @ affinity @ messages.mT)
        return masked_softmax(logits, mask, dim=3) @ messages


def weights_of_unit_sums(
    weights: Float[Tensor, "K Q N M"], inner_products: Float[Tensor, "#K #Q M M"]
) -> Float[Tensor, "K Q N M"]:
    """Weights rescaled so that their sums of M vectors have unit length: w / sqrt(w' G w), with the epsilon of
    `l2_normalise`."""
    squared = ((weights @ inner_products) * weights).sum(3, keepdim=True)
    lengths = squared.clamp_min(1e-30).sqrt() + EPSILON
    if torch.is_grad_enabled():  # sums of zeros stay zero, without gradient
        lengths = lengths.masked_fill(squared == 0, torch.inf)
    return weights / lengths


@dataclass(frozen=True, kw_only=True)
class CampReleasedConfig:
    """The number of attentions that pool a side with the mean of their weights."""

    num_branches: int = 4


@dataclass(frozen=True)
class CampReleasedImages(Rows):
    """Encoded pictures: region vectors (zero where padded), their inner products, `Messages`' affinity, and the
    products of both fusions: `own` is F_x v for the regions, `told` F_f v for their messages to the words."""

    vectors: Float[Tensor, "K R D"]
    gram: Float[Tensor, "K R R"]
    affinity: Float[Tensor, "K R R"]
    own: Float[Tensor, "K R D"]
    told: Float[Tensor, "K R D"]
    mask: Bool[Tensor, "K R"]


@dataclass(frozen=True)
class PooledSide:
    """One side of all pairs: a unit vector, and its pooling weights."""

    vector: Float[Tensor, "Q K D"]
    weights: Float[Tensor, "Q K N"]


class CampReleased(Reranker[CampReleasedImages]):
    """The authors' `gate_fusion_new`, registered as `camp-released`."""

    images_type = CampReleasedImages
    block: ClassVar[tuple[int, int]] = (50, 2)  # a changed vector of every region and pair: 15 MB at width 1024

    def __init__(self, config: CampReleasedConfig, encoders: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.wide_fields = () if encoders.has_unit_regions else ("gram", "affinity")
        self.region_encoder, self.sentence_encoder = build_encoders(encoders)
        width = encoders.width
        self.messages = Messages(width)
        self.region_fusion = nn.Linear(2 * width, width, bias=False)
        self.word_fusion = nn.Linear(2 * width, width, bias=False)
        self.region_pool = pooling_logits(width, config.num_branches)
        self.word_pool = pooling_logits(width, config.num_branches)
        self.scorer = nn.Sequential(Linear(2 * width, width), nn.ReLU(), nn.Linear(width, 1))

    def precompute(self, projected: Regions) -> CampReleasedImages:
        vectors = zero_padded(projected.vectors, projected.mask)
        own_weight, _ = self.region_fusion.weight.chunk(2, dim=1)
        _, message_weight = self.word_fusion.weight.chunk(2, dim=1)
        affinity = self.messages.affinity_of_regions(vectors)
        return CampReleasedImages(
            vectors,
            gram_matrix(vectors),
            affinity,
            vectors @ own_weight.mT,
            vectors @ message_weight.mT,
            projected.mask,
        )

    def score(self, images: CampReleasedImages, words: Words) -> Float[Tensor, "Q K"]:
        picture, sentence, _ = self._pool_sides(images, words)
        return torch.sigmoid(self.scorer(torch.cat([picture.vector, sentence.vector], dim=2))[..., 0])

    def explain(self, images: CampReleasedImages, words: Words) -> Explanation:
        """The words' first attention and both sides' pooling weights; the score is no sum over words."""
        picture, sentence, attention = self._pool_sides(images, words)
        return Explanation("words attend regions", attention, None, sentence.weights, picture.weights)

    def _pool_sides(
        self, images: CampReleasedImages, words: Words
    ) -> tuple[PooledSide, PooledSide, Float[Tensor, "Q K W R"]]:
        """Picture and sentence, each fused with its messages and pooled, and the words' first attention."""
        vectors = zero_padded(words.vectors, words.mask)
        messages = self.messages(images.vectors, images.affinity, images.mask, Words(vectors, words.mask))
        by_regions = weights_of_unit_sums(messages.by_regions, gram_matrix(vectors)[None])
        by_words = weights_of_unit_sums(messages.by_words, images.gram[:, None])
        _, message_weight = self.region_fusion.weight.chunk(2, dim=1)
        own_weight, _ = self.word_fusion.weight.chunk(2, dim=1)
        for_regions = images.own + torch.einsum("kqrw,qwd->qkrd", by_regions, vectors @ message_weight.mT)
        for_words = (vectors @ own_weight.mT)[:, None] + torch.einsum("kqwr,krd->qkwd", by_words, images.told)
        region_gates = (by_regions * messages.inner_products).sum(3).sigmoid().transpose(0, 1)
        word_gates = (by_words * messages.inner_products.mT).sum(3).sigmoid().transpose(0, 1)
        return (
            fuse_and_pool(region_gates, for_regions, images.vectors[None], images.mask[None], self.region_pool),
            fuse_and_pool(word_gates, for_words, vectors[:, None], words.mask[:, None], self.word_pool),
            messages.attention.transpose(0, 1),
        )


def pooling_logits(width: int, num_branches: int) -> nn.Module:
    """The two-layer network of the pooling attentions' logits."""
    return nn.Sequential(Linear(width, width), nn.ReLU(), nn.Linear(width, num_branches))


def fuse_and_pool(
    gates: Float[Tensor, "Q K N"],
    fused: Float[Tensor, "Q K N D"],
    own: Float[Tensor, "#Q #K N D"],
    mask: Bool[Tensor, "#Q #K N"],
    logits: nn.Module,
) -> PooledSide:
    """ReLU of the gated fusion plus the fragments, pooled to one unit vector."""
    changed = (gates.unsqueeze(-1) * fused).relu_() + own
    weights = masked_softmax(logits(changed), mask.unsqueeze(-1), dim=2).mean(3)
    return PooledSide(l2_normalise(torch.einsum("qkn,qknd->qkd", weights, changed)), weights)


@dataclass(frozen=True, kw_only=True)
class CampAttentionConfig:
    """The number of positions that a sentence is padded to; a longer one has no padding."""

    num_places: int = 50


@dataclass(frozen=True)
class CampAttentionImages(Rows):
    """Encoded pictures: region vectors (zero where padded), their inner products and `Messages`' affinity."""

    vectors: Float[Tensor, "K R D"]
    gram: Float[Tensor, "K R R"]
    affinity: Float[Tensor, "K R R"]
    mask: Bool[Tensor, "K R"]


class _ComparedMeans(NamedTuple):
    """The weights of words and regions in the two means, also rescaled to means of unit length, with contributions,
    attention and inner products."""

    contributions: Float[Tensor, "K Q W"]
    attention: Float[Tensor, "K Q W R"]  # the words' first
    of_words: Float[Tensor, "K Q W"]
    of_regions: Float[Tensor, "K Q R"]
    unit_words: Float[Tensor, "K Q 1 W"]
    unit_regions: Float[Tensor, "K Q 1 R"]
    inner_products: Float[Tensor, "K Q R W"]


class CampAttention(Reranker[CampAttentionImages]):
    """The authors' `cross_attention_new`, registered as `camp-released-attention`."""

    images_type = CampAttentionImages

    def __init__(self, config: CampAttentionConfig, encoders: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.wide_fields = () if encoders.has_unit_regions else ("gram", "affinity")
        self.region_encoder, self.sentence_encoder = build_encoders(encoders)
        self.messages = Messages(encoders.width)

    def precompute(self, projected: Regions) -> CampAttentionImages:
        vectors = zero_padded(projected.vectors, projected.mask)
        affinity = self.messages.affinity_of_regions(vectors)
        return CampAttentionImages(vectors, gram_matrix(vectors), affinity, projected.mask)

    def score(self, images: CampAttentionImages, words: Words) -> Float[Tensor, "Q K"]:
        return self._compare_means(images, words).contributions.transpose(0, 1).sum(2)

    def explain(self, images: CampAttentionImages, words: Words) -> Explanation:
        """The words' first attention, and the weights of words and regions in the two means.

        The cosine of sum_w g_w e_w and sum_r f_r v_r is a sum over pairs of g_w f_r <v_r, e_w> / (both lengths):
        these terms are the shares, and a word's contribution is the sum of its shares.
        """
        means = self._compare_means(images, words)
        return Explanation(
            "words attend regions",
            means.attention.transpose(0, 1),
            means.contributions.transpose(0, 1),
            means.of_words.transpose(0, 1),
            means.of_regions.transpose(0, 1),
            (means.unit_words.mT * means.unit_regions * means.inner_products.mT).transpose(0, 1),
        )

    def _compare_means(self, images: CampAttentionImages, words: Words) -> _ComparedMeans:
        vectors = zero_padded(words.vectors, words.mask)
        # One more position represents all the padding.
        longer = Words(pad(vectors, (0, 0, 0, 1)), pad(words.mask, (0, 1)))
        messages = self.messages(images.vectors, images.affinity, images.mask, longer)
        by_regions, inner_products = messages.by_regions[..., :-1], messages.inner_products[..., :-1]
        mean_of_regions, mean_of_words = self._mean_weights(images.mask, words.mask, vectors.dtype)
        of_words = torch.einsum("kr,kqrw->kqw", mean_of_regions, by_regions)
        of_regions = torch.einsum("qw,kqwr->kqr", mean_of_words, messages.by_words)
        unit_words = weights_of_unit_sums(of_words.unsqueeze(2), gram_matrix(vectors)[None])
        unit_regions = weights_of_unit_sums(of_regions.unsqueeze(2), images.gram[:, None])
        contributions = (unit_words * (unit_regions @ inner_products))[:, :, 0]
        attention = messages.attention[:, :, :-1]
        return _ComparedMeans(contributions, attention, of_words, of_regions, unit_words, unit_regions, inner_products)

    def _mean_weights(
        self, regions: Bool[Tensor, "K R"], words: Bool[Tensor, "Q W"], dtype: torch.dtype
    ) -> tuple[Float[Tensor, "K R"], Float[Tensor, "Q W+1"]]:
        """The weight of every region and of every position of a sentence in its side's mean; the last position
        represents all padding."""
        padding = (self.config.num_places - words.sum(1, keepdim=True)).clamp_min(0)
        places = torch.cat([words, padding], dim=1).to(dtype)
        return (
            regions.to(dtype) / regions.sum(1, keepdim=True).clamp_min(1),
            places / places.sum(1, keepdim=True),
        )
