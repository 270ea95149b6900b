"""The map of a backbone's features into the space of a sentence encoder."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from models.extractors.backbones.base import BACKBONE_FEATURE_DIM


class SentenceMap(nn.Module):
    """Two linear maps that were trained together with a backbone: of whole pictures, and of regions.

    Vectors of whole pictures are compared with those of sentences, vectors of regions with states of words. They take
    a third of the space of the features that they are made of.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.of_picture = nn.Linear(BACKBONE_FEATURE_DIM, dim)
        self.of_region = nn.Linear(BACKBONE_FEATURE_DIM, dim)

    def forward(self, features: Float[Tensor, "K R 1280"], whole_picture: bool) -> Float[Tensor, "K R T"]:
        """Vectors of mean features; with `whole_picture` the first of each picture's is that of the picture."""
        vectors: Tensor = self.of_region(features)
        if not whole_picture:
            return vectors
        return torch.cat([self.of_picture(features[:, :1]), vectors[:, 1:]], 1)
