"""`camp-released`: the network that CAMP's authors released as their full model, `gate_fusion_new` (ICCV 2019).

It differs from their paper (camp.py): messages attend to each other once more (camp_messages.py), gates are one
number a fragment, fragment x and unit message f/|f| are stacked instead of added, four attentions pool each side:
    g = sigmoid(<x, f/|f|>),   x' = ReLU(F g [x; f/|f|]) + x,   F = [F_x F_f] without bias
    v* = sum of x' by the mean of four softmaxes of a two-layer network, at unit length; t* likewise
    score = sigmoid(MLP([v*; t*]))
Because g is a number and f = C y, F g [x; f/|f|] = g (F_x x + C F_f y / |f|): both products are done beforehand.
What remains for every fragment of every pair is the D x D layer inside the pooling.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from models.batches import Regions, Rows, Words
from models.rerankers.attention import gram, masked_softmax, unit
from models.rerankers.base import Explanation, Reranker
from models.rerankers.camp_messages import Messages, for_unit_sums
from models.rerankers.encoders import EncoderConfig, RegionEncoder, SentenceEncoder


@dataclass(frozen=True, kw_only=True)
class CampReleasedConfig:
    """How many attentions pool a side; their mean is what counts."""

    num_branches: int = 4


@dataclass(frozen=True)
class CampReleasedImages(Rows):
    """Encoded pictures: region vectors (zero where padded), their inner products and `Messages`' affinity, and
    what the two fusions need of them: F_x v for the regions' own, F_f v for the words that hear them."""

    vectors: Float[Tensor, "K R D"]
    gram: Float[Tensor, "K R R"]
    affinity: Float[Tensor, "K R R"]
    own: Float[Tensor, "K R D"]
    told: Float[Tensor, "K R D"]
    mask: Bool[Tensor, "K R"]


@dataclass(frozen=True)
class Side:
    """One side of all pairs: a unit vector, and the weights that it was pooled by."""

    vector: Float[Tensor, "Q K D"]
    weights: Float[Tensor, "Q K N"]


class CampReleased(Reranker):
    """`camp-released`."""

    images_type: ClassVar[type[Rows]] = CampReleasedImages
    block: ClassVar[tuple[int, int]] = (32, 2)  # a changed vector of every region and pair: 9 MB at width 1024

    def __init__(self, config: CampReleasedConfig, encoders: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.region_encoder: nn.Module = RegionEncoder(encoders)
        self.sentence_encoder: nn.Module = SentenceEncoder(encoders)
        width = encoders.width
        self.messages = Messages(width)
        self.region_fusion = nn.Linear(2 * width, width, bias=False)
        self.word_fusion = nn.Linear(2 * width, width, bias=False)
        self.region_pool = pooling_logits(width, config.num_branches)
        self.word_pool = pooling_logits(width, config.num_branches)
        self.scorer = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, 1))

    def precompute(self, projected: Regions) -> CampReleasedImages:
        vectors = projected.vectors.masked_fill(~projected.mask.unsqueeze(-1), 0)
        own, _ = self.region_fusion.weight.chunk(2, dim=1)
        _, told = self.word_fusion.weight.chunk(2, dim=1)
        affinity = self.messages.affinity_of_regions(vectors)
        return CampReleasedImages(vectors, gram(vectors), affinity, vectors @ own.mT, vectors @ told.mT, projected.mask)

    def score(self, images: CampReleasedImages, words: Words) -> Float[Tensor, "Q K"]:  # type: ignore[override]
        picture, sentence, _ = self._sides(images, words)
        return torch.sigmoid(self.scorer(torch.cat([picture.vector, sentence.vector], dim=2))[..., 0])

    def explain(self, images: CampReleasedImages, words: Words) -> Explanation:  # type: ignore[override]
        """Where words first look, and what each side was pooled from; no part of the score is a word's alone."""
        picture, sentence, attention = self._sides(images, words)
        return Explanation("words attend regions", attention, None, sentence.weights, picture.weights)

    def _sides(self, images: CampReleasedImages, words: Words) -> tuple[Side, Side, Float[Tensor, "Q K W R"]]:
        """Picture and sentence, each after hearing from the other, and what words looked at first."""
        vectors = words.vectors.masked_fill(~words.mask.unsqueeze(-1), 0)
        heard = self.messages(images.vectors, images.affinity, images.mask, Words(vectors, words.mask))
        by_regions = for_unit_sums(heard.by_regions, gram(vectors)[None])
        by_words = for_unit_sums(heard.by_words, images.gram[:, None])
        _, told = self.region_fusion.weight.chunk(2, dim=1)
        own, _ = self.word_fusion.weight.chunk(2, dim=1)
        for_regions = images.own + torch.einsum("kqrw,qwd->qkrd", by_regions, vectors @ told.mT)
        for_words = (vectors @ own.mT)[:, None] + torch.einsum("kqwr,krd->qkwd", by_words, images.told)
        region_gates = (by_regions * heard.raw).sum(3).sigmoid().transpose(0, 1)
        word_gates = (by_words * heard.raw.mT).sum(3).sigmoid().transpose(0, 1)
        return (
            pooled(region_gates, for_regions, images.vectors[None], images.mask[None], self.region_pool),
            pooled(word_gates, for_words, vectors[:, None], words.mask[:, None], self.word_pool),
            heard.attention.transpose(0, 1),
        )


def pooling_logits(width: int, num_branches: int) -> nn.Module:
    """The two-layer network of a pooling's attentions."""
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, num_branches))


def pooled(
    gates: Float[Tensor, "Q K N"],
    fused: Float[Tensor, "Q K N D"],
    own: Float[Tensor, "#Q #K N D"],
    mask: Bool[Tensor, "#Q #K N"],
    logits: nn.Module,
) -> Side:
    """ReLU of the gated fusion plus the fragments themselves, as one unit vector."""
    changed = (gates.unsqueeze(-1) * fused).relu() + own
    weights = masked_softmax(logits(changed), mask.unsqueeze(-1), dim=2).mean(3)
    return Side(unit(torch.einsum("qkn,qknd->qkd", weights, changed)), weights)
