"""Recipes of the papers, whose vectors are not all normalised, on features as long as those of bottom-up attention."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from torch.nn.utils import get_total_norm

from models.datasets.captioned_features import CaptionedFeatures
from models.training.recipes import RECIPES
from models.training.trainer import Training

PAPERS = [name for name in sorted(RECIPES) if name.endswith(("-f30k", "-coco"))]
FEATURE_NORM = 67.0  # the mean of those of bottom-up attention's Faster R-CNN


def bottom_up_like(num: int = 8) -> CaptionedFeatures:
    """Pictures with four regions of 2 048 numbers, most of them 0 and none below, and a caption of their own words."""
    generator = np.random.default_rng(0)
    features = generator.standard_normal((num, 4, 2048)).clip(0.5).astype(np.float32) - 0.5
    features *= FEATURE_NORM / np.linalg.norm(features, axis=2, keepdims=True)
    captions = [[f"dog{number} sees cat{number} at tree{number}"] for number in range(num)]
    return CaptionedFeatures.from_arrays(features, np.ones((num, 4), bool), captions, "bottom-up")


@pytest.mark.parametrize("name", PAPERS)
def test_every_reranker_learns_from_the_first_step(name: str, tmp_path: Path) -> None:
    data = bottom_up_like()
    recipe = replace(RECIPES[name], starts_from=None, least_count=1, batch=8, width=64, word_dim=32, embed_dim=8)
    training = Training(recipe, data, data, tmp_path)
    told = training._train_step(np.arange(len(data)), [own for (own,) in data.captions])
    found = get_total_norm([each.grad for each in training.matcher.reranker.parameters() if each.grad is not None])
    assert told["reranker_gradient_norm"] > 1e-3
    assert told["reranker_gradient_norm"] <= told["gradient_norm"]
    assert float(found) <= recipe.clip * 1.001  # what was told is of before it was clipped


def test_the_rerankers_gradient_is_told_apart_from_that_of_stage_one(tmp_path: Path) -> None:
    data = bottom_up_like()
    recipe = replace(RECIPES["scan-t2i-avg-f30k"], least_count=1, batch=8, width=64, word_dim=32, warmup_steps=1)
    training = Training(recipe, data, data, tmp_path)
    told = training._train_step(np.arange(len(data)), [own for (own,) in data.captions])
    assert told["reranker_gradient_norm"] == 0
    assert told["gradient_norm"] > 0
