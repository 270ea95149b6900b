"""Concept vectors: the classes of a region by two classifiers, in the space of a sentence encoder.

ConSE (Norouzi et al. 2014, section 4) represents a picture by the mean of the sentence vectors of its likeliest
classes, weighted by their probabilities. Here p are the five highest probabilities of the detectors' classes, v the
sentence vectors of "a photo of a <class>"; q and u the same for the ten likeliest ImageNet classes; and w the weight of
the detectors (decided here):

    concept = unit(w sum_k p_k v_k + unit(sum_k q_k u_k))
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn.functional import normalize

from models.extractors.backbones.base import BACKBONE_FEATURE_DIM
from models.extractors.imagenet_classes import IMAGENET_CLASSES

DETECTED_COUNT, CLASSIFIED_COUNT = 5, 10  # numbers of likeliest classes that count
CLASS_SENTENCE = "a photo of a {}"


class Concepts(NamedTuple):
    """Concept vectors of N regions, and each region's likeliest class."""

    vectors: Float[Tensor, "N T"]
    """Unit length."""
    labels: Int64[Tensor, " N"]
    """Indices of the C classes of the detectors, then the 1 000 of ImageNet; C + 1000 if none is likely."""
    confidence: Float[Tensor, " N"]
    """The probability of that class; if none is likely, the highest of all."""


class ConceptHead(nn.Module):
    """An ImageNet classifier over the backbone's features, and the sentence vectors of all classes."""

    def __init__(self, num_detected: int, dim: int) -> None:
        super().__init__()
        self.num_detected = num_detected
        self.classifier = nn.Linear(BACKBONE_FEATURE_DIM, len(IMAGENET_CLASSES))
        self.class_vectors: Tensor
        self.register_buffer("class_vectors", torch.zeros(num_detected + len(IMAGENET_CLASSES), dim))

    def forward(
        self,
        features: Float[Tensor, "N 1280"],
        detected: Float[Tensor, "N C"],
        detected_weight: float,
        min_probability: float,
    ) -> Concepts:
        """The concepts of regions with these mean features and these probabilities of the detectors' classes.

        A region's label is its likeliest detected class if that has at least `min_probability`, else its likeliest
        ImageNet class if that has.
        """
        classified = self.classifier(features).softmax(1)
        of_detected, of_classified = self.class_vectors[: self.num_detected], self.class_vectors[self.num_detected :]
        vectors = detected_weight * _mean_vectors(detected, of_detected, DETECTED_COUNT)
        vectors = vectors + normalize(_mean_vectors(classified, of_classified, CLASSIFIED_COUNT), dim=1)
        best, best_classified = detected.max(1), classified.max(1)
        either = torch.maximum(best.values, best_classified.values)
        is_detected = best.values >= min_probability
        is_classified = best_classified.values >= min_probability
        none = torch.full_like(best.indices, self.num_detected + len(IMAGENET_CLASSES))
        labels = torch.where(is_classified, self.num_detected + best_classified.indices, none)
        return Concepts(
            normalize(vectors, dim=1),
            torch.where(is_detected, best.indices, labels),
            torch.where(is_detected, best.values, either),
        )


def _mean_vectors(
    probabilities: Float[Tensor, "N C"], vectors: Float[Tensor, "C T"], count: int
) -> Float[Tensor, "N T"]:
    """Sums of the vectors of each row's `count` likeliest classes, weighted by their probabilities."""
    likeliest = probabilities.topk(min(count, probabilities.shape[1]), 1)
    return torch.einsum("nk,nkt->nt", likeliest.values, vectors[likeliest.indices])
