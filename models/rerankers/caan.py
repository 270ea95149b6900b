"""CAAN: Context-Aware Attention Network (Zhang et al., CVPR 2020), after the paper; no authors' code is public.

    H = tanh(V' K U)                                     affinity of region i and word j
    Huv = [H]+ / |[H]+| over the regions of each word    Hvu = [H]+ / |[H]+| over the words of each region
    N = rows of Huv, unit length; Hv = N N'              M = columns of Hvu, unit length; Hu = M' M
    f = softmax_i(wv . tanh(Hv V'Q1 + Huv U'Q2)_i)       g = softmax_j(wu . tanh(Hu U'Q3 + Hvu' V'Q4)_j)
    score = (sum_i f_i v_i) . (sum_j g_j u_j) = sum_ij f_i s_ij g_j, with s_ij = v_i . u_j

That is the paper's full model, with SA: fragments of one side are similar if they respond similarly to the other side.
In its form FA (option `intra_modal`) their own features decide the similarity:

    Hv = V' M1 V (eq. 14)                                Hu = U' M2 U (eq. 15)

What the paper leaves open is decided in docs/models/caan.md.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, normalize

from models.batches import Regions, Rows, Words, tiles
from models.kernels.forms import BLOCK, CaanForm, CaanQuestion
from models.rerankers.attention import (
    EPSILON,
    gram_matrix,
    inner_products,
    masked_softmax,
    similarities,
    tanh_logits,
    zero_padded,
)
from models.rerankers.base import OMITTED_BY_DEFAULT, Explanation, Reranker
from models.rerankers.encoders import EncoderConfig, build_encoders

# Numbers in the largest tensor of a step (1 MB): beyond the processor's cache, a step takes twice as long.
_STEP_NUMBERS = 1 << 18


@dataclass(frozen=True, kw_only=True)
class CaanConfig:
    """Options that the paper does not state."""

    attention_width: int = 256
    slope: float = 0.0  # of [x]+ below zero
    intra_modal: Literal["SA", "FA"] = field(default="SA", metadata=OMITTED_BY_DEFAULT)  # the paper's names


@dataclass(frozen=True)
class CaanImages(Rows):
    """Encoded pictures: region vectors v_i (zero where padded), Q1'v_i (in FA the rows of Hv V'Q1) and Q4'v_i."""

    vectors: Float[Tensor, "K R D"]
    intra: Float[Tensor, "K R Z"]
    inter: Float[Tensor, "K R Z"]
    mask: Bool[Tensor, "K R"]


class _Texts(NamedTuple):
    """The words' side of all pairs: u_j (zero where padded), K u_j, Q2'u_j and Q3'u_j (in FA the rows of Hu U'Q3)."""

    vectors: Float[Tensor, "Q W D"]
    keys: Float[Tensor, "Q W D"]
    inter: Float[Tensor, "Q W Z"]
    intra: Float[Tensor, "Q W Z"]
    mask: Bool[Tensor, "Q W"]


class _Attended(NamedTuple):
    """Attention weights f and g, and the words' contributions g_j sum_i f_i s_ij to the scores."""

    regions: Float[Tensor, "Q K R"]
    words: Float[Tensor, "Q K W"]
    contributions: Float[Tensor, "Q K W"]


class Caan(Reranker[CaanImages]):
    """CAAN, registered as `caan`."""

    images_type = CaanImages

    def __init__(self, config: CaanConfig, encoders: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.region_encoder, self.sentence_encoder = build_encoders(encoders)
        width, z = encoders.width, config.attention_width
        self.affinity = nn.Linear(width, width, bias=False)
        nn.init.eye_(self.affinity.weight)
        self.region_intra = nn.Linear(width, z, bias=False)  # Q1
        self.region_inter = nn.Linear(width, z, bias=False)  # Q2
        self.word_intra = nn.Linear(width, z, bias=False)  # Q3
        self.word_inter = nn.Linear(width, z, bias=False)  # Q4
        self.region_weight = nn.Linear(z, 1, bias=False)
        self.word_weight = nn.Linear(z, 1, bias=False)
        if z % BLOCK == 0:
            self.kernel_form = CaanForm(slope=config.slope, intra_modal=config.intra_modal == "FA")
        if config.intra_modal == "FA":
            self.wide_fields = () if encoders.has_unit_regions else ("intra",)
            self.region_alike = nn.Linear(width, width, bias=False)  # M1
            self.word_alike = nn.Linear(width, width, bias=False)  # M2
            nn.init.eye_(self.region_alike.weight)
            nn.init.eye_(self.word_alike.weight)

    def precompute(self, projected: Regions) -> CaanImages:
        vectors = zero_padded(projected.vectors, projected.mask)
        intra = self.region_intra(vectors)
        if self.config.intra_modal == "FA":
            intra = vectors @ self.region_alike(vectors).mT @ intra
        return CaanImages(vectors, intra, self.word_inter(vectors), projected.mask)

    def score(self, images: CaanImages, words: Words) -> Float[Tensor, "Q K"]:
        return self._attend(images, words).contributions.sum(2)

    def explain(self, images: CaanImages, words: Words) -> Explanation:
        """The explanation, in which a word j and a region i share f_i s_ij g_j of the score."""
        attended = self._attend(images, words)
        similarity, _ = similarities(images.vectors, words)
        return Explanation(
            "weights",
            contributions=attended.contributions,
            word_weights=attended.words,
            region_weights=attended.regions,
            shares=attended.words.unsqueeze(3) * similarity.permute(2, 0, 3, 1) * attended.regions.unsqueeze(2),
        )

    def kernel_question(self, words: Words, stored: Callable[[str], Tensor]) -> CaanQuestion:
        texts, weights = self._texts(words), (self.region_weight.weight[0], self.word_weight.weight[0])
        return CaanQuestion(texts.vectors, texts.keys, texts.intra, texts.inter, texts.mask, *weights)

    def _texts(self, words: Words) -> _Texts:
        vectors = zero_padded(words.vectors, words.mask)
        intra = self.word_intra(vectors)
        if self.config.intra_modal == "FA":
            intra = vectors @ self.word_alike(vectors).mT @ intra
        return _Texts(vectors, self.affinity(vectors), self.region_inter(vectors), intra, words.mask)

    def _attend(self, images: CaanImages, words: Words) -> _Attended:
        texts = self._texts(words)
        size = max(1, _STEP_NUMBERS // max(1, len(words) * images.intra.shape[1:].numel()))
        parts = [self._attend_tile(images[tile], texts) for tile in tiles(len(images), size) or [slice(0)]]
        return _Attended(*(torch.cat(part, 1) for part in zip(*parts, strict=True)))

    def _attend_tile(self, images: CaanImages, texts: _Texts) -> _Attended:
        # Both products of regions and words in one, [K R 2 Q W]: a matrix of few columns multiplies slowly.
        both = torch.stack([texts.vectors, texts.keys])
        product = inner_products(images.vectors, both.flatten(0, 2))
        similarity, affinity = product.view(*product.shape[:2], *both.shape[:3]).permute(2, 3, 0, 1, 4)
        positive = leaky_relu(affinity.tanh(), self.config.slope)
        to_words = normalize(positive, dim=2, eps=EPSILON)
        to_regions = normalize(positive, dim=3, eps=EPSILON)
        of_regions, of_words = images.intra, texts.intra.unsqueeze(1)
        if self.config.intra_modal == "SA":
            rows, columns = normalize(to_words, dim=3, eps=EPSILON), normalize(to_regions, dim=2, eps=EPSILON)
            of_regions, of_words = rows @ (rows.mT @ of_regions), gram_matrix(columns.mT) @ of_words
        regions = of_regions + to_words @ texts.inter.unsqueeze(1)
        words = of_words + to_regions.mT @ images.inter
        f = masked_softmax(tanh_logits(2 * regions, self.region_weight.weight[0]), images.mask, dim=2)
        g = masked_softmax(tanh_logits(2 * words, self.word_weight.weight[0]), texts.mask.unsqueeze(1), dim=2)
        return _Attended(f, g, (f.unsqueeze(3) * similarity).sum(2) * g)
