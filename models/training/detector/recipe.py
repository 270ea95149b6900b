"""The recipe of the detector's training, and the batch of every step, which it determines."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from models.datasets.photographs import open_upright
from models.extractors.backbones.base import STRIDE
from models.extractors.resize import fit_size
from models.training.detector.augment import TrainingPicture, augment
from models.training.detector.pseudo_labels import PseudoLabels
from models.training.made_ahead import made_ahead


@dataclass(frozen=True, kw_only=True)
class DetectorRecipe:
    """The hyper-parameters of a training; with the same photographs they give the same detector."""

    backbone: str = "mobilenet-v2"
    """One of `models.extractors.backbones.registry`."""
    steps: int = 1500
    batch: int = 8
    learning_rate: float = 8e-4
    warmup: int = 100
    weight_decay: float = 1e-4
    clip: float = 5.0
    least_score: float = 0.25
    """The lowest score of pseudo-labels for training."""
    sides: tuple[float, float] = (256.0, 448.0)
    """Bounds of the square root of a picture's number of pixels, which is random for each batch."""
    aspects: tuple[float, float] = (0.5, 2.0)
    """Bounds of width / height, which is random for each batch."""
    least_crop: float = 0.6
    """The least side of a crop, as a share of the photograph's."""
    save_every: int = 100
    seed: int = 0
    side: float = 448.0
    """`DetectorConfig.side` of the detector."""
    surroundings: float = 1.0
    """`DetectorConfig.surroundings` of the detector."""
    starts_from: str | None = None
    """A detector's folder whose neck, proposals and heads are the initial ones; its backbone is not used."""


def learning_rate_at(recipe: DetectorRecipe, step: int) -> float:
    """The learning rate of a step: linear warm-up, then half a cosine down to zero."""
    if step < recipe.warmup:
        return recipe.learning_rate * (step + 1) / recipe.warmup
    share = (step - recipe.warmup) / max(1, recipe.steps - recipe.warmup)
    return recipe.learning_rate * (1 + math.cos(math.pi * share)) / 2


@dataclass(frozen=True)
class DetectorBatches:
    """The augmented pictures of every step, determined by recipe, photographs and step."""

    recipe: DetectorRecipe
    photographs: Mapping[str, Path]
    """Name -> file."""
    labels: Mapping[str, PseudoLabels]
    """Name -> the boxes in the photograph."""

    def after(self, done: int) -> Iterator[list[TrainingPicture]]:
        """The batches after the first `done`; a thread prepares the next one."""
        return made_ahead(self.make, range(done, self.recipe.steps))

    def make(self, step: int) -> list[TrainingPicture]:
        """The batch of one step."""
        recipe, random = self.recipe, np.random.default_rng((self.recipe.seed, step))
        aspect = math.exp(random.uniform(*np.log(recipe.aspects)))
        size = fit_size(round(1000 * aspect), 1000, random.uniform(*recipe.sides), STRIDE)
        names = sorted(self.labels)
        pictures = []
        for number in range(step * recipe.batch, (step + 1) * recipe.batch):
            epoch, within = divmod(number, len(names))
            name = names[np.random.default_rng((recipe.seed, epoch, 1)).permutation(len(names))[within]]
            confident = self.labels[name].with_min_score(recipe.least_score)
            pictures.append(augment(open_upright(self.photographs[name]), confident, size, recipe.least_crop, random))
        return pictures
