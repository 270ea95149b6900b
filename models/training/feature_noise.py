"""Noise that makes features of photographs a backbone was tuned on as uncertain as those of other photographs.

A tuned backbone nearly knows its training photographs by heart, and whatever learns from their features learns to trust
them too far. Gaussian noise with the covariance of the vectors themselves closes the gap to other photographs before
the first step (decided here; measured in docs/lab/regions.md).
"""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from models.batches import Regions
from models.datasets.captioned_features import CaptionedFeatures

SAMPLED = 2000  # pictures, of which the covariances are taken
RIDGE = 1e-6  # added to the variances, so that a covariance of few pictures can be factored


class FeatureNoise:
    """Noise on aligned features: one draw a picture, the same for all its regions, and one draw a region.

    Concept vectors, at the end of features, stay as they are: they are not tuned to captions.
    """

    def __init__(self, data: CaptionedFeatures, concept_dim: int, picture: float, region: float) -> None:
        """`picture` and `region`: sizes of the two kinds of noise, in standard deviations of the vectors.

        ValueError names pictures whose features are not finite.
        """
        sampled = np.linspace(0, len(data) - 1, min(len(data), SAMPLED)).astype(np.int64)
        if bad := data.not_finite(sampled):
            raise ValueError(bad)
        sample = data.regions(sampled)
        own = sample.vectors[..., : data.feature_dim - concept_dim]
        self.picture = picture * _factor(own[:, 0])
        self.region = region * _factor(own[:, 1:][sample.mask[:, 1:]])

    def __call__(self, regions: Regions) -> Regions:
        """The regions of K pictures with noise, from torch's random state."""
        K, R, _ = regions.vectors.shape
        device, width = regions.vectors.device, len(self.picture)
        shared = torch.randn(K, 1, width).to(device) @ self.picture.T.to(device)
        own = torch.randn(K, R, width).to(device) @ self.region.T.to(device)
        own[:, 0] = 0  # the whole picture
        vectors = regions.vectors.clone()
        vectors[..., :width] += (shared + own) * regions.mask[:, :, None]
        return Regions(vectors, regions.mask)


def _factor(vectors: Float[Tensor, "N D"]) -> Float[Tensor, "D D"]:
    """L with L L^T = the covariance of the vectors; zeros for fewer than two."""
    width = vectors.shape[1]
    if len(vectors) < 2:
        return torch.zeros(width, width)
    factor: Tensor = torch.linalg.cholesky(torch.cov(vectors.T) + RIDGE * torch.eye(width))
    return factor
