"""SMAN: Stacked Multi-modal Attention Network (Ji et al., IEEE T-Cybernetics 2020), after the paper.

    v0 = tanh(P0 mean_m I_m) + mean_m GRU(I)_m            t0 = mean_l S_l
    v1 = tanh(P1 sum_m a_m I_m / M)                       t1 = sum_l a_l S_l
         a = softmax_m(w . tanh(W I_m * tanh(Wq v0)))          a = softmax_l(w . (tanh(W S_l) * tanh(Wq t0)))
    ov = sigmoid(alpha v^ + (1 - alpha) t^)               ot = sigmoid(alpha t^ + (1 - alpha) v^)
         v^ = Uv(v0 + v1)                                      t^ = Ut(t0 + t1)
    v2 = tanh(P2 sum_m a_m I_m / M)                       t2 = sum_l a_l S_l
         a = softmax_m(w . tanh(W I_m * tanh(Wq ov)))          a = softmax_l(w . tanh(W S_l * tanh(Wq ot)))
    score = cos(v0, t0) + cos(v1, t1) + cos(v2, t2), where every step has its own W, Wq and w

I_m are raw features: of the cells of a grid in raster order (models/extractors/grid.py), as in the paper, or of regions
in the detector's order, which the GRU then reads. A concept vector is part of the feature, and the whole picture's
vector is added to an aligned region's (models/rerankers/encoders.py). S_l are the summed outputs of both directions of
an LSTM, or mapped states of a pretrained encoder.

docs/models/sman.md decides what the paper leaves open.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from models.batches import Regions, Rows, Words, tiles
from models.kernels.forms import BLOCK, SmanForm, SmanQuestion
from models.rerankers.attention import AdditiveAttention, masked_mean, masked_softmax, zero_padded
from models.rerankers.base import Explanation, Reranker
from models.rerankers.encoders import (
    SMALL_START,
    EncoderConfig,
    LstmSentenceEncoder,
    RawRegionEncoder,
    build_state_encoder,
)
from models.rerankers.products import Linear

# Numbers in the largest tensor of a step (4 MB): beyond the processor's cache a step takes three times as long.
_STEP_NUMBERS = 1 << 20
NUM_COSINES = 3


@dataclass(frozen=True, kw_only=True)
class SmanConfig:
    """The options; the defaults are the paper's choices, or one reading of what it leaves open."""

    alpha: float = 0.9  # share of the same side in a query of the second step
    divide_by_regions: bool = True
    text_product: Literal["inside", "outside"] = "inside"  # of the second step's tanh
    directions: Literal["sum", "mean"] = "sum"
    similarity: Literal["sum", "concatenation"] = "sum"


@dataclass(frozen=True)
class SmanImages(Rows):
    """Encoded pictures: the whole image side except the queries of the second step."""

    keys: Float[Tensor, "K R D"]  # W I_m of the second step
    values: Float[Tensor, "K R D"]  # P2 I_m / M
    gate: Float[Tensor, "K D"]  # v^
    whole: Float[Tensor, "K D"]  # v0
    own: Float[Tensor, "K D"]  # v1
    mask: Bool[Tensor, "K R"]


class _Texts(NamedTuple):
    """Sentences with the fields of `SmanImages`; `values` are the words, zero where padded."""

    keys: Float[Tensor, "Q W D"]
    values: Float[Tensor, "Q W D"]
    gate: Float[Tensor, "Q D"]
    whole: Float[Tensor, "Q D"]
    own: Float[Tensor, "Q D"]
    mask: Bool[Tensor, "Q W"]


class _Attended(NamedTuple):
    """Scores, and the attention weights of the second step."""

    scores: Float[Tensor, "Q K"]
    words: Float[Tensor, "Q K W"]
    regions: Float[Tensor, "Q K R"]


class Sman(Reranker[SmanImages]):
    """SMAN, registered as `sman`."""

    images_type = SmanImages
    projects: ClassVar[bool] = False

    def __init__(self, config: SmanConfig, encoders: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.region_encoder: nn.Module = RawRegionEncoder(encoders)
        self.sentence_encoder: nn.Module = (
            build_state_encoder(encoders)
            if encoders.text == "pretrained"
            else LstmSentenceEncoder(encoders, config.directions)
        )
        features, width = encoders.feature_dim, encoders.width
        self.summary = Linear(features, width)  # P0
        self.reader = nn.GRU(features, width, batch_first=True)
        self.region_first = AdditiveAttention(features, width)
        self.region_second = AdditiveAttention(features, width)
        self.region_output_first = Linear(features, width)  # P1
        self.region_output_second = Linear(features, width)  # P2
        self.word_first = AdditiveAttention(width, width)
        self.word_second = AdditiveAttention(width, width)
        self.region_gate = Linear(width, width)  # Uv
        self.word_gate = Linear(width, width)  # Ut
        if width % BLOCK == 0:
            self.kernel_form = SmanForm(
                outside=config.text_product == "outside", concatenation=config.similarity == "concatenation"
            )

    @torch.no_grad()
    def start_as(self, words: Float[Tensor, "D S"]) -> None:
        """Initialise like the base class; cosines of aligned regions start as those of means of regions and words.

        The GRU, whose states are added to one side, starts small.
        """
        super().start_as(words)
        assert isinstance(self.region_encoder, RawRegionEncoder)
        regions = {"weight": self.region_encoder.map_like(words), "bias": torch.zeros(len(words))}
        for layer in (self.summary, self.region_output_first, self.region_output_second):
            layer.load_state_dict(regions)
        for weight in self.reader.parameters():
            weight.mul_(SMALL_START)

    def precompute(self, projected: Regions) -> SmanImages:
        mask = projected.mask
        vectors = zero_padded(projected.vectors, mask)
        shares = vectors / mask.sum(1).clamp_min(1)[:, None, None] if self.config.divide_by_regions else vectors
        whole = self.summary(masked_mean(vectors, mask)).tanh() + self._mean_state(vectors, mask)
        logits = self.region_first.product_inside_tanh(self.region_first.keys(vectors), whole)
        weights = masked_softmax(logits, mask, dim=1)
        own = self.region_output_first((weights.unsqueeze(1) @ shares)[:, 0]).tanh()
        # P2 is applied before the weights are known: they sum to one, so its bias can be added to every region.
        values = self.region_output_second(shares)
        return SmanImages(self.region_second.keys(vectors), values, self.region_gate(whole + own), whole, own, mask)

    def score(self, images: SmanImages, words: Words) -> Float[Tensor, "Q K"]:
        return self._attend(images, words).scores

    def explain(self, images: SmanImages, words: Words) -> Explanation:
        attended = self._attend(images, words)
        return Explanation("weights", word_weights=attended.words, region_weights=attended.regions)

    def _mean_state(self, vectors: Float[Tensor, "K R F"], mask: Bool[Tensor, "K R"]) -> Float[Tensor, "K D"]:
        """Mean state of the GRU over the real regions, in their order."""
        order = mask.byte().argsort(dim=1, descending=True, stable=True)
        states, _ = self.reader(vectors.gather(1, order.unsqueeze(2).expand_as(vectors)))
        return masked_mean(states, mask.gather(1, order))

    def _texts(self, words: Words) -> _Texts:
        mask = words.mask
        vectors = zero_padded(words.vectors, mask)
        whole = masked_mean(vectors, mask)
        logits = self.word_first.product_outside_tanh(self.word_first.keys(vectors), whole.unsqueeze(1))
        own = (masked_softmax(logits, mask.unsqueeze(1), dim=2) @ vectors)[:, 0]
        return _Texts(self.word_second.keys(vectors), vectors, self.word_gate(whole + own), whole, own, mask)

    def kernel_question(self, words: Words, stored: Callable[[str], Tensor]) -> SmanQuestion:
        texts = self._texts(words)
        region_query, word_query = self._queries(stored("gate"), texts)
        keys, of_words = texts.keys, self.word_second.doubled_query(word_query)
        if self.config.text_product == "outside":
            keys, of_words = keys.tanh(), self.word_second.weighed_query(word_query)
        return SmanQuestion(
            keys=keys,
            values=texts.values,
            whole=texts.whole,
            own=texts.own,
            mask=texts.mask,
            region_queries=self.region_second.doubled_query(region_query),
            word_queries=of_words,
            region_weight=self.region_second.weight.weight[0],
            word_weight=self.word_second.weight.weight[0],
        )

    def _queries(
        self, gate: Float[Tensor, "K D"], texts: _Texts
    ) -> tuple[Float[Tensor, "Q K D"], Float[Tensor, "Q K D"]]:
        """The queries ov and ot of all pairs' second step."""
        alpha, text_gate = self.config.alpha, texts.gate.unsqueeze(1)
        of_regions = (alpha * gate + (1 - alpha) * text_gate).sigmoid()
        return of_regions, (alpha * text_gate + (1 - alpha) * gate).sigmoid()

    def _attend(self, images: SmanImages, words: Words) -> _Attended:
        texts = self._texts(words)
        size = max(1, _STEP_NUMBERS // max(1, len(words) * images.keys.shape[1:].numel()))
        parts = [self._attend_tile(images[tile], texts) for tile in tiles(len(images), size) or [slice(0)]]
        return _Attended(*(torch.cat(part, 1) for part in zip(*parts, strict=True)))

    def _attend_tile(self, images: SmanImages, texts: _Texts) -> _Attended:
        region_query, word_query = self._queries(images.gate, texts)
        logits = self.region_second.product_inside_tanh(images.keys, region_query)
        region_weights = masked_softmax(logits, images.mask, dim=2)
        if self.config.text_product == "inside":
            logits = self.word_second.product_inside_tanh(texts.keys.unsqueeze(1), word_query)
        else:
            logits = self.word_second.product_outside_tanh(texts.keys, word_query)
        word_weights = masked_softmax(logits, texts.mask.unsqueeze(1), dim=2)
        attended_regions = torch.einsum("qkr,krd->qkd", region_weights, images.values).tanh()
        attended_words = word_weights @ texts.values
        sides = ((images.whole, texts.whole), (images.own, texts.own))
        first_steps = [(image, text.unsqueeze(1)) for image, text in sides]
        scores = self._similarity(*first_steps, (attended_regions, attended_words))
        return _Attended(scores, word_weights, region_weights)

    def _similarity(self, *sides: tuple[Tensor, Tensor]) -> Float[Tensor, "Q K"]:
        """The sum of the cosines of the pairs of vectors, or one cosine of their concatenations."""
        products = [((v * t).sum(-1), v.square().sum(-1), t.square().sum(-1)) for v, t in sides]
        if self.config.similarity == "concatenation":
            products = [tuple(a + b + c for a, b, c in zip(*products, strict=True))]
        return torch.stack([inner / (v * t).clamp_min(1e-30).sqrt() for inner, v, t in products]).sum(0)


def intra_pair_loss(positive: Float[Tensor, " Q"], margin: float = 0.25) -> Float[Tensor, ""]:
    """Sum over matching pairs of max(0, 1 - mean of the three cosines - margin), once per pair (eq. 22).

    The paper prints max(0, d - margin) with the similarity d, which would lower the scores of matching pairs, in both
    of its symmetric halves; it must mean a distance. `positive` are scores of a `similarity="sum"` model.
    """
    return (1 - positive / NUM_COSINES - margin).clamp_min(0).sum()
