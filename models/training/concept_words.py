"""Words that name things, and the regions that show them, by the concept vectors of a training's pictures."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from models.batches import tiles
from models.datasets.captioned_features import CaptionedFeatures
from models.evaluation.class_names import from_template
from models.text.bert_encoder import BertEncoder

TEMPLATE = "a photo of a X"  # as for the classes of concept vectors
TILE_PICTURES = 500
CONCRETE_SHARE = 0.01  # least share of regions that stand out for a word that names a thing
STANDS_OUT = 0.15  # least excess of a region's cosine to a word over the mean of all regions


class ConceptWords:
    """Words as sentence vectors, compared with the concept vectors of all regions except whole pictures.

    Plain cosines are not comparable between words: that of "the" is high everywhere. A region shows a word's meaning if
    its cosine exceeds the mean over all regions.
    """

    def __init__(self, encoder: BertEncoder, data: CaptionedFeatures, words: Sequence[str]) -> None:
        self.rows = {word: row for row, word in enumerate(words)}
        self.vectors = encoder.embed([from_template(TEMPLATE, word) for word in words]).cpu()
        self.concept_dim = self.vectors.shape[1]
        self.highest = torch.zeros(len(words), len(data))
        """[L, N]: the highest cosine of a word to a region of a picture."""
        counts, sums = torch.zeros(len(words)), torch.zeros(self.concept_dim)
        picture_tiles = tiles(len(data), TILE_PICTURES)
        for tile in picture_tiles:
            concepts, mask = self._concepts(data, tile)
            sums += concepts[mask].sum(0)
        self.num_regions = int(data.mask[data.rows][:, 1:].sum())
        self.mean = sums / max(1, self.num_regions)
        mean_cosines = self.vectors @ self.mean
        for tile in picture_tiles:
            concepts, mask = self._concepts(data, tile)
            cosines = torch.einsum("ld,krd->lkr", self.vectors, concepts).masked_fill(~mask, -1)
            self.highest[:, tile] = cosines.amax(2)
            counts += (cosines - mean_cosines[:, None, None] >= STANDS_OUT).sum((1, 2))
        self.is_concrete = counts >= CONCRETE_SHARE * self.num_regions
        """[L]: whether a word names something visible."""

    def standing_out(self, concepts: Float[Tensor, "Q R D"], tokens: Sequence[Sequence[str]]) -> Float[Tensor, "Q W R"]:
        """The excess of each region's cosine to each word of Q sentences over its mean; -inf for unknown words."""
        longest = max(map(len, tokens), default=0)
        padded = [[*(self.rows.get(word, -1) for word in row), *[-1] * (longest - len(row))] for row in tokens]
        rows = torch.tensor(padded, dtype=torch.int64).reshape(len(tokens), longest)
        excess = self.vectors[rows] @ (concepts - self.mean).transpose(1, 2)
        return excess.masked_fill((rows < 0)[:, :, None], -torch.inf)

    def _concepts(self, data: CaptionedFeatures, tile: slice) -> tuple[Float[Tensor, "K R D"], Tensor]:
        """Concept vectors of the regions other than whole pictures, and the mask of the real ones."""
        regions = data.regions(np.arange(len(data))[tile])
        return regions.vectors[:, 1:, -self.concept_dim :], regions.mask[:, 1:]
