"""`camp-released-attention`: the authors' `cross_attention_new`, from which `camp-released` is trained (ICCV 2019).

score = cosine of two means of messages (camp_messages.py): over the regions, and over the words. The authors pad
every sentence to 50 places and average over all 50. A padded place hears the mean of the regions whatever its
position: here one such place is computed and counts 50 - W times. With f = C y the means are weighted sums as well, of
words and of regions, and the cosine comes from inner products alone; the messages themselves are never built.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import pad

from models.batches import Regions, Rows, Words
from models.rerankers.attention import gram
from models.rerankers.base import Explanation, Reranker
from models.rerankers.camp_messages import Messages, for_unit_sums
from models.rerankers.encoders import EncoderConfig, RegionEncoder, SentenceEncoder


@dataclass(frozen=True, kw_only=True)
class CampAttentionConfig:
    """Places that a sentence is padded to; a longer one has no padding."""

    num_places: int = 50


@dataclass(frozen=True)
class CampAttentionImages(Rows):
    """Encoded pictures: region vectors (zero where padded), their inner products and `Messages`' affinity."""

    vectors: Float[Tensor, "K R D"]
    gram: Float[Tensor, "K R R"]
    affinity: Float[Tensor, "K R R"]
    mask: Bool[Tensor, "K R"]


class CampAttention(Reranker):
    """`camp-released-attention`."""

    images_type: ClassVar[type[Rows]] = CampAttentionImages

    def __init__(self, config: CampAttentionConfig, encoders: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.region_encoder: nn.Module = RegionEncoder(encoders)
        self.sentence_encoder: nn.Module = SentenceEncoder(encoders)
        self.messages = Messages(encoders.width)

    def precompute(self, projected: Regions) -> CampAttentionImages:
        vectors = projected.vectors.masked_fill(~projected.mask.unsqueeze(-1), 0)
        affinity = self.messages.affinity_of_regions(vectors)
        return CampAttentionImages(vectors, gram(vectors), affinity, projected.mask)

    def score(self, images: CampAttentionImages, words: Words) -> Float[Tensor, "Q K"]:  # type: ignore[override]
        return self._parts(images, words)[0].sum(2)

    def explain(self, images: CampAttentionImages, words: Words) -> Explanation:  # type: ignore[override]
        """Where words first look, and what the two means are made of.

        The cosine of sum_w g_w e_w and sum_r f_r v_r is a sum over pairs of g_w f_r <v_r, e_w> / (both lengths):
        a word's contribution is the sum of its own.
        """
        contributions, attention, word_weights, region_weights = self._parts(images, words)
        return Explanation("words attend regions", attention, contributions, word_weights, region_weights)

    def _parts(
        self, images: CampAttentionImages, words: Words
    ) -> tuple[Float[Tensor, "Q K W"], Float[Tensor, "Q K W R"], Float[Tensor, "Q K W"], Float[Tensor, "Q K R"]]:
        """Contributions of words, their first attention, and the weights of words and regions in the two means."""
        vectors = words.vectors.masked_fill(~words.mask.unsqueeze(-1), 0)
        # One place more stands for all the padding.
        longer = Words(pad(vectors, (0, 0, 0, 1)), pad(words.mask, (0, 1)))
        heard = self.messages(images.vectors, images.affinity, images.mask, longer)
        by_regions, raw = heard.by_regions[..., :-1], heard.raw[..., :-1]
        region_shares, word_shares = self._shares(images.mask, words.mask, vectors.dtype)
        of_words = torch.einsum("kr,kqrw->kqw", region_shares, by_regions)
        of_regions = torch.einsum("qw,kqwr->kqr", word_shares, heard.by_words)
        unit_words = for_unit_sums(of_words.unsqueeze(2), gram(vectors)[None])
        unit_regions = for_unit_sums(of_regions.unsqueeze(2), images.gram[:, None])
        contributions = (unit_words * (unit_regions @ raw))[:, :, 0]
        attention = heard.attention[:, :, :-1]
        return (
            contributions.transpose(0, 1),
            attention.transpose(0, 1),
            of_words.transpose(0, 1),
            of_regions.transpose(0, 1),
        )

    def _shares(
        self, regions: Bool[Tensor, "K R"], words: Bool[Tensor, "Q W"], dtype: torch.dtype
    ) -> tuple[Float[Tensor, "K R"], Float[Tensor, "Q W+1"]]:
        """What every region and every place of a sentence counts in its side's mean; all padding is the last place."""
        padding = (self.config.num_places - words.sum(1, keepdim=True)).clamp_min(0)
        places = torch.cat([words, padding], dim=1).to(dtype)
        return (
            regions.to(dtype) / regions.sum(1, keepdim=True).clamp_min(1),
            places / places.sum(1, keepdim=True),
        )
