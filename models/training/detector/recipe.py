"""How the detector is trained: the recipe, and the views that follow from it step by step."""

import math
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import PIL.Image

from models.extractors.backbones.base import STRIDE
from models.extractors.resize import fit_size
from models.training.detector.augment import View, random_view
from models.training.detector.pseudo_labels import Lesson


@dataclass(frozen=True, kw_only=True)
class DetectorRecipe:
    """How to train; the same recipe, photographs and seed give the same detector."""

    backbone: str = "mobilenet-v2"
    """One of `models.extractors.backbones.registry`."""
    steps: int = 1500
    batch: int = 8
    learning_rate: float = 8e-4
    warmup: int = 100
    weight_decay: float = 1e-4
    clip: float = 5.0
    least_score: float = 0.25
    """Teacher's boxes below it are not taught."""
    sides: tuple[float, float] = (256.0, 448.0)
    """Root of the number of pixels of a batch, drawn anew for each."""
    aspects: tuple[float, float] = (0.5, 2.0)
    """Width / height of a batch, likewise."""
    least_crop: float = 0.6
    save_every: int = 100
    seed: int = 0
    side: float = 448.0
    """Of the pictures that it will look at: `DetectorConfig.side`."""
    surroundings: float = 1.0
    """Of what its regions will be made: `DetectorConfig.surroundings`."""


def learning_rate(recipe: DetectorRecipe, step: int) -> float:
    """Linear warm-up, then half a cosine down to zero."""
    if step < recipe.warmup:
        return recipe.learning_rate * (step + 1) / recipe.warmup
    share = (step - recipe.warmup) / max(1, recipe.steps - recipe.warmup)
    return recipe.learning_rate * (1 + math.cos(math.pi * share)) / 2


def batch_views(
    recipe: DetectorRecipe, photographs: Mapping[str, Path], lessons: Mapping[str, Lesson], step: int
) -> list[View]:
    """The views of one step, which follow from the recipe and the step alone."""
    random = np.random.default_rng((recipe.seed, step))
    aspect = math.exp(random.uniform(*np.log(recipe.aspects)))
    size = fit_size(round(1000 * aspect), 1000, random.uniform(*recipe.sides), STRIDE)
    names = sorted(lessons)
    first = step * recipe.batch
    views = []
    for place in range(first, first + recipe.batch):
        epoch, within = divmod(place, len(names))
        order = np.random.default_rng((recipe.seed, epoch, 1)).permutation(len(names))
        name = names[order[within]]
        with PIL.Image.open(photographs[name]) as photograph:
            picture = photograph.convert("RGB")
        views.append(random_view(picture, lessons[name].above(recipe.least_score), size, recipe.least_crop, random))
    return views


def prefetched(
    recipe: DetectorRecipe, photographs: Mapping[str, Path], lessons: Mapping[str, Lesson], first: int
) -> Iterator[list[View]]:
    """Batches from step `first` on, the next one made while one is learnt."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(batch_views, recipe, photographs, lessons, first)
        for step in range(first, recipe.steps):
            views = coming.result()
            coming = pool.submit(batch_views, recipe, photographs, lessons, step + 1)
            yield views
