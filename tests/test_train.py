"""Every recipe learns a small synthetic set by heart, and a killed training ends with the same weights."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from models.checkpoint import load_matcher
from models.dataset import CaptionedFeatures
from models.evaluate import evaluate
from models.recipes import RECIPES, Recipe
from models.train import Training

NOUNS = [f"noun{letter}" for letter in "abcdefghijklmnopqrst"]


def synthetic(num: int = 48) -> CaptionedFeatures:
    """Pictures of four things out of twenty; each caption names the four in another order."""
    random = np.random.default_rng(0)
    looks = random.normal(size=(len(NOUNS), 24))
    things = [random.choice(len(NOUNS), 4, replace=False) for _ in range(num)]
    features = np.stack([looks[four] + 0.1 * random.normal(size=(4, 24)) for four in things]).astype(np.float16)
    captions = [[" ".join(NOUNS[thing] for thing in random.permutation(four)) for _ in range(3)] for four in things]
    return CaptionedFeatures.whole(features, np.ones((num, 4), bool), captions, "synthetic")


def small(recipe: Recipe, **changes: Any) -> Recipe:
    """The recipe with everything that only large data needs taken down."""
    sizes: dict[str, Any] = {
        "width": 32,
        "word_dim": 16,
        "embed_dim": 32,
        "batch": 24,
        "least_count": 1,
        "warmup_steps": 30,
        "epochs": 12,
        "learning_rate": 5e-3,
        "averaging": 0.9,
        "patience": 12,
        "feature_dropout": 0.0,
        "word_dropout": 0.0,
        "region_dropout": 0.0,
    }
    return replace(recipe, **(sizes | changes))


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_a_recipe_learns_a_small_set_by_heart(name: str, tmp_path: Path) -> None:
    data = synthetic()
    Training(small(RECIPES[name]), data, data, tmp_path, "cpu").run(lambda _: None)
    report = evaluate(load_matcher(tmp_path / "best"), data, shortlists=(10,))
    assert report["exhaustive"]["text_to_image"]["r1"] == 100
    assert report["exhaustive"]["image_to_text"]["r1"] == 100
    assert report["stage_one"]["text_to_image"]["r10"] == 100


KILLED = """
import sys, os, signal
sys.path[:0] = [{tests!r}]
from pathlib import Path
from test_train import RECIPES, Training, small, synthetic
data = synthetic()
def log(entry):
    if entry["step"] == {step}:
        os.kill(os.getpid(), signal.SIGKILL)
recipe = small(RECIPES["scan-t2i-avg-flickr8k"], epochs=3, feature_dropout=0.2, save_every=5)
Training(recipe, data, data, Path({out!r}), "cpu").run(log)
"""


def test_a_training_killed_twice_ends_with_the_same_weights(tmp_path: Path) -> None:
    recipe = small(RECIPES["scan-t2i-avg-flickr8k"], epochs=3, feature_dropout=0.2, save_every=5)
    data = synthetic()
    whole = Training(recipe, data, data, tmp_path / "whole", "cpu").run(lambda _: None)
    for step in (17, 39):
        script = KILLED.format(tests=str(Path(__file__).parent), step=step, out=str(tmp_path / "killed"))
        done = subprocess.run([sys.executable, "-c", script], check=False, env=os.environ)
        assert done.returncode == -signal.SIGKILL
    resumed = Training(recipe, data, data, tmp_path / "killed", "cpu").run(lambda _: None)
    for name, tensor in whole.state_dict().items():
        torch.testing.assert_close(resumed.state_dict()[name], tensor, atol=0, rtol=0, msg=name)


def test_a_folder_of_another_recipe_is_refused(tmp_path: Path) -> None:
    data = synthetic(24)
    recipe = small(RECIPES["scan-t2i-avg-flickr8k"], epochs=1, warmup_steps=1)
    Training(recipe, data, data, tmp_path, "cpu").run(lambda _: None)
    with pytest.raises(ValueError, match="another recipe"):
        Training(replace(recipe, seed=1), data, data, tmp_path, "cpu").run(lambda _: None)
