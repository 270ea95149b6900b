"""What both networks that CAMP's authors released share (Wang et al., ICCV 2019): fragments hear from the other side.

    m = softmax(q k' / sqrt(D)) y                    every fragment's message from the vectors y of the other side
    f = softmax(q''(m) k''(m)' / sqrt(D)) m          the same fragments' messages, attending to each other
Every f is a weighted sum of y, and only the weights C are computed here, f = C y: with A the first attention the
second one's logits are A M A', where M = q''(y) k''(y)' is R x R or W x W and needs no partner.
Padding weighs nothing; a padded place of a sentence asks with zeros and so hears the mean of the regions.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from models.batches import Words
from models.rerankers.attention import EPSILON, masked_softmax, similarities

# Our names of weights -> the authors', of both networks.
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
class Heard:
    """What K pictures and Q sentences hear from each other, as weights of the other side's vectors."""

    raw: Float[Tensor, "K Q R W"]  # inner products of regions and words
    attention: Float[Tensor, "K Q W R"]  # of words over regions, the first one
    by_regions: Float[Tensor, "K Q R W"]  # every region's f is made of words by these
    by_words: Float[Tensor, "K Q W R"]


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
        """M of messages that are made of regions."""
        return torch.matmul(self.of_regions_query(vectors), self.of_regions_key(vectors).mT)

    def affinity_of_words(self, vectors: Float[Tensor, "Q W D"]) -> Float[Tensor, "Q W W"]:
        """M of messages that are made of words."""
        return torch.matmul(self.of_words_query(vectors), self.of_words_key(vectors).mT)

    def forward(
        self,
        regions: Float[Tensor, "K R D"],
        affinity: Float[Tensor, "K R R"],
        regions_mask: Bool[Tensor, "K R"],
        words: Words,
    ) -> Heard:
        """`affinity` is `affinity_of_regions(regions)`; regions and words hold zeros where padded."""
        vectors = words.vectors
        # <q(t), W_k v> = <W_k' q(t), v>: the projections fold into the words, so that one product of regions and
        # words gives the logits of both attentions and the inner products.
        folded = (
            vectors,
            self.word_query(vectors) @ self.region_key.weight,
            self.word_key(vectors) @ self.region_query.weight,
        )
        product, _ = similarities(regions, Words(torch.cat(folded), words.mask.repeat(3, 1)))
        raw, to_words, to_regions = product.permute(0, 2, 1, 3).chunk(3, dim=1)
        real_words, real_regions = words.mask[None, :, None], regions_mask[:, None, None]
        of_regions = masked_softmax(self.scale * to_words.mT, real_regions, dim=3)
        of_words = masked_softmax(self.scale * to_regions, real_words, dim=3)
        return Heard(
            raw,
            of_regions,
            self._among_themselves(of_words, self.affinity_of_words(vectors)[None], real_regions),
            self._among_themselves(of_regions, affinity[:, None], real_words),
        )

    def _among_themselves(
        self,
        messages: Float[Tensor, "K Q N M"],
        affinity: Float[Tensor, "#K #Q M M"],
        mask: Bool[Tensor, "#K #Q 1 N"],
    ) -> Float[Tensor, "K Q N M"]:
        """N messages, each given as weights of M vectors, attend to the real ones among them."""
        logits = self.scale * (messages @ affinity @ messages.mT)
        return masked_softmax(logits, mask, dim=3) @ messages


def for_unit_sums(
    weights: Float[Tensor, "K Q N M"], inner_products: Float[Tensor, "#K #Q M M"]
) -> Float[Tensor, "K Q N M"]:
    """Weights by which the same sums of M vectors have unit length: w / sqrt(w' G w), with `unit`'s epsilon."""
    squared = ((weights @ inner_products) * weights).sum(3, keepdim=True)
    return weights / (squared.clamp_min(1e-30).sqrt() + EPSILON)
