"""CAMP: Cross-modal Adaptive Message Passing (Wang et al., ICCV 2019), after the paper.

Every region gets a message m from the words, and every word one from the regions, by attention. A gate weights each
number by the agreement of message and fragment x, and the result changes the fragment:
    x' = F(sigmoid(x * m) * (x + m)) + x,   F(y) = ReLU(W y + b)
The changed fragments are pooled by attention and score = sigmoid(MLP(v* + t*)). Vectors are not normalised.
docs/models/camp.md decides what the paper leaves open. The authors released other networks: camp_released.py.

The gate is inside F, so F's D x D product for every region and word of every pair cannot be precomputed.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from models.batches import Regions, Words
from models.rerankers.attention import masked_softmax, similarities, zero_padded
from models.rerankers.base import Explanation, Reranker
from models.rerankers.encoders import EncoderConfig, build_encoders
from models.rerankers.products import Linear

LENGTH_SLOPE = 14.0  # of the initial log odds in the length of v* + t*, which is longer by about 0.2 for matching pairs


@dataclass(frozen=True, kw_only=True)
class CampConfig:
    """Options that the paper leaves open."""

    key_width: int | None = None  # of the attention's projections; None: half of the vectors' width
    activation: Literal["relu", "tanh"] = "relu"  # of F


@dataclass(frozen=True)
class FusedPairs:
    """Scores of all pairs, with their attention and pooling weights."""

    scores: Float[Tensor, "Q K"]
    attention: Float[Tensor, "Q K W R"]  # of words over regions
    word_weights: Float[Tensor, "Q K W"]
    region_weights: Float[Tensor, "Q K R"]


def sum_in_place(changed: Float[Tensor, "*shape"], other: Float[Tensor, "*#shape"]) -> Float[Tensor, "*shape"]:
    """The sum, in the memory of the first tensor if no gradient needs that: allocation costs as much as the sum."""
    return changed + other if torch.is_grad_enabled() else changed.add_(other)


class GatedFusion(nn.Module):
    """One side's fusion with the messages it receives: gate, fuse and pool."""

    def __init__(self, width: int, config: CampConfig) -> None:
        super().__init__()
        self.fusion = Linear(width, width)
        self.pool = nn.Linear(width, 1, bias=False)
        self.activate_ = torch.relu_ if config.activation == "relu" else torch.tanh_

    def forward(
        self, own: Float[Tensor, "#Q #K N D"], messages: Float[Tensor, "Q K N D"], mask: Bool[Tensor, "#Q #K N"]
    ) -> tuple[Float[Tensor, "Q K D"], Float[Tensor, "Q K N"]]:
        """The side as one vector, and its pooling weights."""
        gate = (own * messages).sigmoid_()
        fused = sum_in_place(self.activate_(self.fusion(sum_in_place(messages, own).mul_(gate))), own)
        weights = masked_softmax(self.pool(fused)[..., 0] / math.sqrt(own.shape[-1]), mask, dim=-1)
        return torch.einsum("qkn,qknd->qkd", weights, fused), weights


def new_scorer(encoders: EncoderConfig) -> nn.Sequential:
    """The paper's two layers, initialised to measure length if regions and words have unit length, else at random.

    Vectors of raw features are tens of times as long, so that by length every pair would match with probability 1,
    without a gradient to change that.
    """
    if encoders.has_unit_regions and encoders.has_unit_words:
        return length_scorer(encoders.width)
    return nn.Sequential(Linear(encoders.width, encoders.width), nn.ReLU(), nn.Linear(encoders.width, 1))


def length_scorer(width: int) -> nn.Sequential:
    """Both layers of a scorer that measures the length of the sum of two unit vectors.

    Similar vectors have a long sum, which indicates a match; random weights would have to learn that on a plateau of
    the loss. Half the hidden units are projections w_i of the sum, the others their negatives: after the ReLU they add
    up to sum_i |w_i x|, about |x| sqrt(D / 2 pi) for D numbers. The bias makes the result 0 for orthogonal unit
    vectors, |x| = sqrt(2).
    """
    hidden, out = Linear(width, width), nn.Linear(width, 1)
    pairs = width // 2
    projections = nn.init.orthogonal_(torch.empty(pairs, width)) if pairs else torch.empty(0, width)
    with torch.no_grad():
        hidden.weight[: 2 * pairs] = torch.cat([projections, -projections])
        hidden.bias.zero_()
        step = LENGTH_SLOPE / math.sqrt(width / (2 * math.pi))
        out.weight.fill_(step)
        out.bias.fill_(-LENGTH_SLOPE * math.sqrt(2))
    return nn.Sequential(hidden, nn.ReLU(), out)


class Camp(Reranker[Regions]):
    """The CAMP of the paper, registered as `camp`."""

    images_type = Regions
    block: ClassVar[tuple[int, int]] = (50, 2)  # a changed vector of every region and pair: 15 MB at width 1024

    def __init__(self, config: CampConfig, encoders: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.region_encoder, self.sentence_encoder = build_encoders(encoders)
        width = encoders.width
        self.key_width = config.key_width or max(width // 2, 1)
        self.region_key = nn.Linear(width, self.key_width, bias=False)
        self.word_key = nn.Linear(width, self.key_width, bias=False)
        self.region_side, self.word_side = GatedFusion(width, config), GatedFusion(width, config)
        self.scorer = new_scorer(encoders)

    def precompute(self, projected: Regions) -> Regions:
        return Regions(zero_padded(projected.vectors, projected.mask), projected.mask)

    def score(self, images: Regions, words: Words) -> Float[Tensor, "Q K"]:
        return self._fuse(images, words).scores

    def explain(self, images: Regions, words: Words) -> Explanation:
        """The words' attention and both sides' pooling weights; the score is no sum over words."""
        fused = self._fuse(images, words)
        return Explanation("words attend regions", fused.attention, None, fused.word_weights, fused.region_weights)

    def _fuse(self, images: Regions, words: Words) -> FusedPairs:
        vectors = zero_padded(words.vectors, words.mask)
        # <W_v v, W_t t> = <v, W_v' W_t t>, so that no region is projected.
        keys = Words(self.word_key(vectors) @ self.region_key.weight, words.mask)
        affinity = similarities(images.vectors, keys)[0] / math.sqrt(self.key_width)
        by_words = masked_softmax(affinity, images.mask[:, :, None, None], dim=1)
        by_regions = masked_softmax(affinity, words.mask, dim=3)
        to_words = torch.einsum("krqw,krd->qkwd", by_words, images.vectors)
        to_regions = torch.einsum("krqw,qwd->qkrd", by_regions, vectors)
        picture, region_weights = self.region_side(images.vectors[None], to_regions, images.mask[None])
        sentence, word_weights = self.word_side(vectors[:, None], to_words, words.mask[:, None])
        scores = torch.sigmoid(self.scorer(picture + sentence)[..., 0])
        return FusedPairs(scores, by_words.permute(2, 0, 3, 1), word_weights, region_weights)
