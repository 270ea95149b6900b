"""The map of pictures to sentence vectors that is trained with a backbone, its targets and its losses.

A photograph's unit vector e is a linear map of the mean of its last map; t_c is the vector of caption c of all N
training photographs, and u_n the normalised mean of photograph n's captions. Pictures are compared with
t'_c = unit(t_c + A t_c): A, initially zero, learns which content of a sentence is visible. Three losses are added:

    to text    cross entropy of softmax_c(e . t'_c / T) with  own_share / 5 on each of its five captions
                                                            + (1 - own_share) softmax_c(u . t_c / neighbours)
    to image   for each caption of the batch's photographs, cross entropy of softmax_n(e_n . t' / T') over the batch,
               with own_share on its own photograph and the rest by softmax_n(t . u_n / neighbours)
    knowledge  `distillation` times KL(classifier on tiles now || published classifier on published tiles)

T and T' are learned; the targets are those of models/training/caption_targets.py. If pictures of a batch are mixed, a
mixed picture's target is the mean of its parts' targets, weighted by area, and likewise a caption's target over mixed
pictures. The third loss preserves the backbone's knowledge of parts of a picture from ImageNet (Hinton et al. 2015,
distillation, at temperature 1), which tuning on whole pictures alone would erase.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import kl_div, log_softmax, normalize

from models.datasets.captions import CaptionLine
from models.evaluation.metrics import Recalls, image_to_text_ranks, rsum, text_to_image_ranks
from models.training.backbone.recipe import SentenceRecipe
from models.training.caption_targets import CaptionTargets


class SentenceHead(nn.Module):
    """The parts trained with the backbone: the map to sentence vectors, the map A of sentences, the temperatures, and
    ImageNet's classifier."""

    def __init__(self, feature_dim: int, width: int, recipe: SentenceRecipe, classifier: nn.Linear) -> None:
        super().__init__()
        self.dropout = nn.Dropout(recipe.dropout)
        self.project = nn.Linear(feature_dim, width)
        self.of_sentence = nn.Linear(width, width, bias=False)
        nn.init.zeros_(self.of_sentence.weight)
        start = torch.tensor(math.log(recipe.temperature))
        self.log_text_temperature = nn.Parameter(start.clone())
        self.log_image_temperature = nn.Parameter(start.clone())
        self.classifier = classifier

    def embed(self, maps: Float[Tensor, "K F h w"]) -> Float[Tensor, "K D"]:
        """Vectors of whole pictures, from their last maps."""
        return self.embed_means(maps.mean((2, 3)))

    def embed_means(self, features: Float[Tensor, "K F"]) -> Float[Tensor, "K D"]:
        """Vectors of whole pictures, comparable with those of `read`."""
        return normalize(self.project(self.dropout(features)), dim=1)

    def read(self, sentences: Float[Tensor, "Q D"]) -> Float[Tensor, "Q D"]:
        """Vectors of sentences for the comparison with pictures: their visible content."""
        return normalize(sentences + self.of_sentence(sentences), dim=1)

    @torch.no_grad()
    def map_to_sentences(self) -> nn.Linear:
        """`project` combined with A: (I + A)' (W f + b), whose inner product with a sentence's original vector t equals
        that of W f + b with t + A t. The normalisation of t + A t is lost."""
        weight, bias, visible = self.project.weight, self.project.bias, self.of_sentence.weight
        return linear_layer(weight + visible.T @ weight, bias + visible.T @ bias)

    def classify(self, regions: Float[Tensor, "K R F"]) -> Float[Tensor, "K R C"]:
        """ImageNet's classes of regions, as logits."""
        logits: Tensor = self.classifier(regions)
        return logits


def matching_losses(
    head: SentenceHead,
    targets: CaptionTargets,
    embeddings: Float[Tensor, "K D"],
    numbers: Tensor,
    shown: Float[Tensor, "K K"] | None = None,
) -> dict[str, Tensor]:
    """The losses "to_text" and "to_image" of the vectors of the photographs `numbers`.

    `shown` holds the shares of each picture's area that show each photograph, if pictures were mixed.
    """
    with torch.no_grad():
        captions = targets.captions_of(numbers)
        by_image, by_caption = targets.of_images(numbers), targets.of_captions(captions, numbers)
        if shown is not None:
            by_image, by_caption = shown @ by_image, by_caption @ shown.T
    to_text = embeddings @ head.read(targets.vectors).T / head.log_text_temperature.exp()
    to_image = head.read(targets.vectors[captions]) @ embeddings.T / head.log_image_temperature.exp()
    return {
        "to_text": -(by_image * log_softmax(to_text, 1)).sum(1).mean(),
        "to_image": -(by_caption * log_softmax(to_image, 1)).sum(1).mean(),
    }


def class_divergence(logits: Float[Tensor, "N C"], published: Float[Tensor, "N C"]) -> Float[Tensor, ""]:
    """Mean KL divergence of classes from the published network's."""
    return kl_div(log_softmax(logits, -1), log_softmax(published, -1), log_target=True, reduction="batchmean")


def whole_picture_recalls(
    vectors: Float[Tensor, "K D"], sentences: Float[Tensor, "Q D"], lines: Sequence[CaptionLine]
) -> dict[str, Any]:
    """Recalls in both directions of photographs and captions by one vector each, and their sum."""
    image_of = torch.tensor([n for n, line in enumerate(lines) for _ in line.captions], device=vectors.device)
    scores = sentences @ vectors.T
    to_image = Recalls.of(text_to_image_ranks(scores, image_of))
    to_text = Recalls.of(image_to_text_ranks(scores, image_of))
    return {
        "text_to_image": to_image.as_dict(),
        "image_to_text": to_text.as_dict(),
        "rsum": rsum(to_image, to_text),
    }


def linear_layer(weights: Tensor, biases: Tensor) -> nn.Linear:
    """A linear layer with these weights."""
    layer = nn.Linear(weights.shape[1], weights.shape[0], device=weights.device, dtype=weights.dtype)
    layer.load_state_dict({"weight": weights, "bias": biases})
    return layer
