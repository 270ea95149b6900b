"""The head of a finished backbone fitted anew: what is saved, that it learns, and that its files make a detector."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from models.conversion.detector import read_classifier, read_sentence_map
from models.extractors.backbones.base import HEAD_FILE, fold_batch_norm, read_layers
from models.extractors.backbones.registry import BACKBONES
from models.extractors.faster_rcnn.sentence_map import SentenceMap
from models.training.backbone.head_fitting import HeadFitting, HeadRecipe, ViewFeatures
from tests.models.training.backbone.test_sentence_tuning import ENCODER, WIDTH, folder, photographs

pytestmark = pytest.mark.slow

__all__ = ["folder"]

RECIPE = HeadRecipe(backbone="mobilenet-v2", side=64, batch=3, epochs=2, passes=30, pictures_a_step=4, rate=1e-2)


def fitting(folder: Path, out: Path, recipe: HeadRecipe = RECIPE) -> HeadFitting:
    published = folder / "published.safetensors"
    return HeadFitting(recipe, photographs(folder), published, published, ENCODER, out)


@pytest.fixture(scope="module")
def fitted(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[HeadFitting, list[dict[str, Any]], Path]:
    out = tmp_path_factory.mktemp("head")
    seen: list[dict[str, Any]] = []
    run = fitting(folder, out)
    run.run(seen.append)
    return run, seen, out


def test_it_learns_and_says_every_step(fitted: tuple[HeadFitting, list[dict[str, Any]], Path]) -> None:
    run, seen, _ = fitted
    assert [entry["step"] for entry in seen] == list(range(1, run.total_steps + 1))
    passes = [entry for entry in seen if "validation" in entry]
    assert len(passes) == RECIPE.passes
    assert passes[-1]["to_text"] < passes[0]["to_text"]
    # The same network is student and teacher here, so that its classifier has nothing to learn.
    assert passes[0]["knowledge"] == pytest.approx(0, abs=1e-3)


def test_the_backbone_stays(fitted: tuple[HeadFitting, list[dict[str, Any]], Path], folder: Path) -> None:
    run, _, _ = fitted
    before = fold_batch_norm(read_layers(BACKBONES["mobilenet-v2"], folder / "published.safetensors")).state_dict()
    assert all(torch.equal(value, before[name]) for name, value in run.backbone.features.state_dict().items())


def test_vectors_have_length_one_on_average(fitted: tuple[HeadFitting, list[dict[str, Any]], Path]) -> None:
    run, _, out = fitted
    sentence_map = SentenceMap(WIDTH)
    sentence_map.load_state_dict(read_sentence_map(out / HEAD_FILE))
    views: ViewFeatures = run._view_features(lambda entry: None)
    for layer, features in ((sentence_map.of_picture, views.pictures), (sentence_map.of_region, views.tiles)):
        lengths = layer(features.float()).detach().norm(dim=-1)
        assert float(lengths.mean()) == pytest.approx(1, abs=0.1)  # other crops than those it was scaled by


def test_a_detector_can_be_made_of_what_is_saved(fitted: tuple[HeadFitting, list[dict[str, Any]], Path]) -> None:
    _, _, out = fitted
    weight, bias = read_classifier(out / HEAD_FILE, "mobilenet-v2")
    assert (weight.shape, bias.shape) == ((1000, 1280), (1000,))
    assert set(load_file(out / HEAD_FILE)) == {
        f"{layer}.{part}" for layer in ("classifier", "of_picture", "of_region") for part in ("weight", "bias")
    }


def test_the_same_seed_gives_the_same_head(folder: Path, tmp_path: Path) -> None:
    short = HeadRecipe(backbone="mobilenet-v2", side=64, batch=3, epochs=1, passes=2, pictures_a_step=4)
    for name in ("a", "b"):
        fitting(folder, tmp_path / name, short).run(lambda entry: None)
    first, second = (load_file(tmp_path / name / HEAD_FILE) for name in ("a", "b"))
    assert all(torch.equal(first[name], second[name]) for name in first)
