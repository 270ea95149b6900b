"""A second backbone, which only describes whole pictures.

A backbone that is tuned until it distinguishes whole pictures well forgets what ImageNet taught it about their parts,
from which regions are described and named. So the detector's own backbone is tuned cautiously, this one fully, and a
whole picture's vector is made of both, since they err on different pictures.
"""

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn
from torch.nn.functional import normalize

from models.extractors.backbones.base import BACKBONE_FEATURE_DIM
from models.extractors.backbones.registry import build_backbone


class PictureNetwork(nn.Module):
    """A backbone and a linear map of the mean of its last map to the space of a sentence encoder."""

    def __init__(self, backbone: str, dim: int, mirrored: bool) -> None:
        """Build the network; with `mirrored`, a picture's vector is the mean of its own and its mirror image's."""
        super().__init__()
        self.backbone = build_backbone(backbone)
        self.project = nn.Linear(BACKBONE_FEATURE_DIM, dim)
        self.mirrored = mirrored

    def forward(self, pixels: UInt8[Tensor, "K 3 H W"]) -> Float[Tensor, "K D"]:
        """Unit vectors of pictures that were stretched to a square, as in the tuning."""
        if not self.mirrored:
            return self._vectors(pixels)
        upright, mirrored = self._vectors(torch.cat([pixels, pixels.flip(3)])).chunk(2)
        return normalize(upright + mirrored, dim=1)

    def _vectors(self, pixels: UInt8[Tensor, "K 3 H W"]) -> Float[Tensor, "K D"]:
        inputs = self.backbone.normalise(pixels).contiguous(memory_format=torch.channels_last)
        return normalize(self.project(self.backbone.features(inputs).mean((2, 3))), dim=1)


def shared_vector(own: Float[Tensor, "K D"], of_network: Float[Tensor, "K D"], share: float) -> Float[Tensor, "K D"]:
    """Unit vectors between those of two networks; `share` is that of the second, whose vectors have length 1."""
    return normalize(torch.lerp(normalize(own, dim=1), of_network, share), dim=1)
