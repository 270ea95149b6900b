"""Recipes and a set so small that a model learns it by heart within seconds."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from models.datasets.captioned_features import CaptionedFeatures
from models.training.recipes import Recipe
from models.training.trainer import Training
from tests.support.shape_checks import unchecked_shapes

NOUNS = [f"noun{letter}" for letter in "abcdefghijklmnopqrst"]


def synthetic(num: int = 48) -> CaptionedFeatures:
    """Pictures of four things out of twenty; each caption names the four in another order."""
    random = np.random.default_rng(0)
    looks = random.normal(size=(len(NOUNS), 24))
    things = [random.choice(len(NOUNS), 4, replace=False) for _ in range(num)]
    features = np.stack([looks[four] + 0.1 * random.normal(size=(4, 24)) for four in things]).astype(np.float16)
    captions = [[" ".join(NOUNS[thing] for thing in random.permutation(four)) for _ in range(3)] for four in things]
    return CaptionedFeatures.from_arrays(features, np.ones((num, 4), bool), captions, "synthetic")


RATES = {"adamw": 5e-3, "sgd": 0.05, "adadelta": 1.0}
# A network that must find out by itself when two sums agree takes long to, and so does one with a sharp maximum.
SLOW: dict[str, dict[str, Any]] = {
    "camp": {"clip": 256.0, "epochs": 64, "decay_after": (), "batch": 12},
    "scan-i2t-lse": {"epochs": 48},
}


def small(recipe: Recipe, **changes: Any) -> Recipe:
    """The recipe with everything that only large data needs taken down, and a start that all of them can share."""
    sizes: dict[str, Any] = {
        "width": 32,
        "word_dim": 16,
        "embed_dim": None,
        "batch": 24,
        "least_count": 1,
        "warmup_steps": 0 if recipe.starts_from else 30,
        "stage_one": "together",
        "epochs": 24,
        "learning_rate": RATES[recipe.optimizer],
        "decay_after": None if recipe.decay_after is None else (),
        "clip": 2.0,
        "averaging": 0.9 if recipe.averaging else 0.0,
        "patience": 12,
        "validate_images": 48,
        "mixed_precision": False,
        "feature_dropout": 0.0,
        "word_dropout": 0.0,
        "region_dropout": 0.0,
    }
    return replace(recipe, **(sizes | SLOW.get(recipe.model, {}) | changes))


def knows_by_heart(report: dict[str, Any]) -> bool:
    """Whether everything is found first among all pairs, and among the first ten by stage one."""
    exhaustive = report["exhaustive"]
    firsts = [exhaustive[direction]["r1"] for direction in ("text_to_image", "image_to_text")]
    return firsts == [100, 100] and bool(report["stage_one"]["text_to_image"]["r10"] > 95)


class NothingLeftToLearn(Exception):
    """A training ended early, with all that it was to learn."""


def learn_by_heart(training: Training) -> None:
    """Train until the recipe's end, or until the best model, which is kept, knows by heart what it is validated on."""
    is_known = False

    def log(entry: dict[str, Any]) -> None:
        nonlocal is_known
        if is_known:  # and kept, since another step was made
            raise NothingLeftToLearn
        is_known = "validation" in entry and knows_by_heart(entry["validation"])

    with unchecked_shapes(), suppress(NothingLeftToLearn):
        training.run(log)
