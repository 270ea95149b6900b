"""Noise that makes features of a backbone's own training photographs as uncertain as those of others.

A tuned backbone has almost memorised its training photographs, so a model that is trained on their features trusts
features too much. Gaussian noise with the covariance of the vectors closes the gap to other photographs before the
first step (decided here; measured in docs/lab/regions.md).
"""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from models.batches import Regions
from models.datasets.captioned_features import CaptionedFeatures

SAMPLED = 2000  # pictures for the covariances
RIDGE = 1e-6  # added to the variances, so that a covariance of few pictures can be factored


class FeatureNoise:
    """Noise on aligned features: one draw per picture for all its regions, and one draw per region.

    Concept vectors, at the end of features, are unchanged, since they are not tuned to captions.
    """

    def __init__(self, data: CaptionedFeatures, concept_dim: int, picture: float, region: float) -> None:
        """`picture` and `region` are the sizes of both kinds of noise, in standard deviations of the vectors.

        Raises ValueError, which names the pictures, for features that are not finite.
        """
        sampled = np.linspace(0, len(data) - 1, min(len(data), SAMPLED)).astype(np.int64)
        if bad := data.not_finite(sampled):
            raise ValueError(bad)
        sample = data.regions(sampled)
        aligned = sample.vectors[..., : data.feature_dim - concept_dim]
        self.picture = picture * _factor(aligned[:, 0])
        self.region = region * _factor(aligned[:, 1:][sample.mask[:, 1:]])

    def __call__(self, regions: Regions) -> Regions:
        """The regions of K pictures with noise, from torch's random state."""
        K, R, _ = regions.vectors.shape
        device, width = regions.vectors.device, len(self.picture)
        shared = torch.randn(K, 1, width).to(device) @ self.picture.T.to(device)
        by_region = torch.randn(K, R, width).to(device) @ self.region.T.to(device)
        by_region[:, 0] = 0  # the whole picture
        vectors = regions.vectors.clone()
        vectors[..., :width] += (shared + by_region) * regions.mask[:, :, None]
        return Regions(vectors, regions.mask)


def _factor(vectors: Float[Tensor, "N D"]) -> Float[Tensor, "D D"]:
    """L with L L^T = the covariance of the vectors; zeros for fewer than two."""
    width = vectors.shape[1]
    if len(vectors) < 2:
        return torch.zeros(width, width)
    factor: Tensor = torch.linalg.cholesky(torch.cov(vectors.T) + RIDGE * torch.eye(width))
    return factor
