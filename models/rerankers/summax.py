"""Sum-Max: the text-image and image-text baselines of SCAN's paper (Lee et al., ECCV 2018, eqs 9 and 10).

Every query takes its best partner, without attention: S = sum_w max_r <v_r, e_w>, or S = sum_r max_w <v_r, e_w>.
The published code lacks them; as there, vectors are assumed to be normalised, so that inner products are cosines.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import one_hot

from models.batches import Regions, Words
from models.kernels.forms import KernelForm
from models.rerankers.attention import similarities, zero_padded
from models.rerankers.base import Explanation, Reranker
from models.rerankers.encoders import EncoderConfig, build_encoders


@dataclass(frozen=True, kw_only=True)
class SumMaxConfig:
    """The direction: in t2i every word chooses its best region (eq. 9), in i2t every region its best word (eq. 10)."""

    direction: Literal["t2i", "i2t"] = "t2i"


class SumMax(Reranker[Regions]):
    """Sum-Max, registered as `summax-t2i` and `summax-i2t`."""

    images_type = Regions

    def __init__(self, config: SumMaxConfig, encoders: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        by_words = config.direction == "t2i"
        self.kernel_form = KernelForm(words_attend=by_words, regions_attend=not by_words, pooling="Sum")
        self.region_encoder, self.sentence_encoder = build_encoders(encoders)

    def precompute(self, projected: Regions) -> Regions:
        return Regions(zero_padded(projected.vectors, projected.mask), projected.mask)

    def score(self, images: Regions, words: Words) -> Float[Tensor, "Q K"]:
        raw, _ = similarities(images.vectors, words)
        if self.config.direction == "t2i":
            best = raw.masked_fill(~images.mask[:, :, None, None], -torch.inf).amax(1)
            return best.masked_fill(~words.mask, 0).sum(2).T
        best = raw.masked_fill(~words.mask, -torch.inf).amax(3)
        return best.masked_fill(~images.mask.unsqueeze(-1), 0).sum(1).T

    def explain(self, images: Regions, words: Words) -> Explanation:
        """The explanation, in which a query's attention and shares are all on its choice; a word contributes the
        similarities of all pairs that it chose or was chosen in."""
        raw = similarities(images.vectors, words)[0].permute(2, 0, 3, 1)  # zero where either is padding
        if self.config.direction == "t2i":
            real = images.mask[:, None, :]
            choice = raw.masked_fill(~real, -torch.inf).argmax(3)
            attention = (one_hot(choice, raw.shape[3]) * real).to(raw.dtype)
            shares = attention * raw
            return Explanation("words attend regions", attention, shares.sum(3), shares=shares)
        choice = raw.masked_fill(~words.mask[:, None, :, None], -torch.inf).argmax(2)
        attention = one_hot(choice, raw.shape[2]).to(raw.dtype).mT
        shares = attention * raw
        return Explanation("regions attend words", attention, shares.sum(3), shares=shares)
