"""Fine-tuning against sentence vectors: the targets in plain loops, what learns and what stays, and kills."""

import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
from safetensors.torch import load_file, save_file
from torchvision.models import mobilenet_v2

from models.datasets.captions import CaptionedPhotographs, CaptionLine
from models.extractors.backbones.base import BACKBONE_FILE, HEAD_FILE, fold_batch_norm, read_layers
from models.extractors.backbones.registry import BACKBONES, build_backbone
from models.training.backbone.sentence_tuning import (
    SentenceTuning,
    SentenceTuningRecipe,
)
from models.training.checkpoints import CHECKPOINT_FILE, UnusableCheckpoint
from tests.support.small_bert import HashedSentences

pytestmark = pytest.mark.slow

COLOURS = ("red", "green", "blue", "white", "black", "yellow")
WIDTH = 8
Finished = tuple[SentenceTuning, list[dict[str, Any]]]
RECIPE = SentenceTuningRecipe(
    backbone="mobilenet-v2", side=64, batch=3, epochs=3, save_every=1, frozen_layers=3, rate=1e-4, mixing=0.5
)


ENCODER = HashedSentences(WIDTH)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photographs of one colour each with noise, and published weights."""
    folder = tmp_path_factory.mktemp("photographs")
    torch.manual_seed(0)
    save_file(mobilenet_v2().state_dict(), folder / "published.safetensors")
    random = np.random.default_rng(0)
    for colour in COLOURS:
        noise = random.integers(0, 40, (40, 50, 3), np.uint8)
        PIL.Image.fromarray(noise + random.integers(0, 200, 3, np.uint8)).save(folder / f"{colour}.png")
    return folder


LINES = [CaptionLine(f"{colour}.png", (f"a {colour} wall", f"all {colour} here")) for colour in COLOURS]


def photographs(folder: Path) -> CaptionedPhotographs:
    return CaptionedPhotographs(folder, LINES, LINES[:4])


def tuning(folder: Path, out: Path, recipe: SentenceTuningRecipe = RECIPE, **options: Any) -> SentenceTuning:
    return SentenceTuning(recipe, photographs(folder), folder / "published.safetensors", ENCODER, out, **options)


@pytest.fixture(scope="module")
def finished(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A tuning to its end, which tests leave as it is, and what it told."""
    run, told = tuning(folder, tmp_path_factory.mktemp("tuning") / "run"), list[dict[str, Any]]()
    run.run(told.append)
    return run, told


def test_a_tuning_goes_on_from_one_that_read_sentences_as_they_are(
    folder: Path, tmp_path: Path, finished: Finished
) -> None:
    first, _ = finished
    shutil.copytree(first.out, tmp_path / "first")
    path = tmp_path / "first" / CHECKPOINT_FILE
    state = torch.load(path, weights_only=False)
    for part in ("network", "averaged"):
        for name in [name for name in state["parts"][part] if name.endswith("of_sentence.weight")]:
            del state["parts"][part][name]
    torch.save(state, path)
    later = tuning(folder, tmp_path / "later", initial=tmp_path / "first")
    assert not later.head.of_sentence.weight.any()
    assert torch.equal(later.head.project.weight, first.head.project.weight)
    with pytest.raises(UnusableCheckpoint, match="other parts"):
        tuning(folder, tmp_path / "first").run(lambda entry: None)


def test_before_the_first_step_nothing_was_forgotten(folder: Path, tmp_path: Path) -> None:
    assert tuning(folder, tmp_path).validate()["divergence"] == pytest.approx(0, abs=1e-5)


def test_late_layers_learn_and_early_ones_stay(folder: Path, finished: Finished) -> None:
    run, seen = finished
    before = fold_batch_norm(read_layers(BACKBONES["mobilenet-v2"], folder / "published.safetensors")).state_dict()
    changed = {name for name, value in run.layers.state_dict().items() if not torch.equal(value, before[name])}
    assert changed
    assert not {name for name in changed if int(name.split(".")[0]) < RECIPE.frozen_layers}
    assert run.head.classifier.weight.grad is not None  # it learns along, slowly: these layers give tiny numbers
    assert run.published_classifier.weight.grad is None
    steps = [entry for entry in seen if "to_text" in entry]
    assert [entry["step"] for entry in steps] == [1, 2, 3, 4, 5, 6]
    assert all(math.isfinite(entry[name]) for entry in steps for name in ("to_text", "to_image", "knowledge"))
    validations = [entry["validation"] for entry in seen if "validation" in entry]
    assert len(validations) == 3
    assert set(validations[0]) == {"text_to_image", "image_to_text", "rsum", "divergence"}


def test_the_average_is_saved(finished: Finished) -> None:
    run, _ = finished
    saved = build_backbone("mobilenet-v2", run.out / BACKBONE_FILE).features.state_dict()
    averaged = run.averaged_network.layers.state_dict()
    assert all(torch.equal(saved[name], averaged[name]) for name in saved)
    assert any(not torch.equal(saved[name], value) for name, value in run.layers.state_dict().items())
    head = load_file(run.out / HEAD_FILE)
    assert head["classifier.weight"].shape == (1000, 1280)
    averaged_head = run.averaged_network.head
    assert averaged_head.of_sentence.weight.any()
    assert torch.equal(head["project.weight"], averaged_head.map_to_sentences().weight)
    assert not torch.equal(head["project.weight"], averaged_head.project.weight)


@pytest.mark.slow
def test_it_learns_a_small_set_by_heart(folder: Path, tmp_path: Path) -> None:
    recipe = SentenceTuningRecipe(
        backbone="mobilenet-v2",
        side=64,
        batch=6,
        epochs=30,
        frozen_layers=3,
        rate=3e-3,
        head_rate=2e-2,
        least_crop=1.0,
        averaging=0.5,
        own_share=1.0,
        distillation=0.0,
        dropout=0.0,
    )
    losses: list[float] = []
    tuning(folder, tmp_path, recipe).run(lambda entry: losses.extend([entry["to_text"]] if "to_text" in entry else []))
    assert losses[-1] < 0.6 * losses[0]


@pytest.mark.slow
def test_a_killed_tuning_ends_with_the_same_weights(folder: Path, tmp_path: Path, finished: Finished) -> None:
    whole, _ = finished

    def killed(entry: dict[str, Any]) -> None:
        if entry["step"] == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tuning(folder, tmp_path / "cut").run(killed)
    again = tuning(folder, tmp_path / "cut")
    again.run(lambda entry: None)
    for one, other in ((whole.network, again.network), (whole.averaged_network, again.averaged_network)):
        for name, value in one.state_dict().items():
            assert torch.equal(value, other.state_dict()[name]), name
    learns_from = {**again.checkpoint.learns_from, "sentence encoder": "0" * 16}
    with pytest.raises(UnusableCheckpoint, match="was begun on other sentence encoder"):
        replace(again.checkpoint, learns_from=learns_from).resume()
    with pytest.raises(UnusableCheckpoint):
        tuning(folder, tmp_path / "cut", SentenceTuningRecipe(backbone="mobilenet-v2", side=64)).run(lambda entry: None)


def test_it_goes_on_from_an_earlier_tuning(folder: Path, tmp_path: Path, finished: Finished) -> None:
    first, _ = finished
    second = tuning(folder, tmp_path / "second", initial=first.out)
    for name, value in first.network.state_dict().items():
        assert torch.equal(value, second.network.state_dict()[name]), name


def test_weights_without_a_classifier_are_refused(folder: Path, tmp_path: Path) -> None:
    state = {name: t for name, t in mobilenet_v2().state_dict().items() if not name.startswith("classifier")}
    save_file(state, tmp_path / "bare.safetensors")
    with pytest.raises(ValueError, match="no ImageNet classifier"):
        SentenceTuning(RECIPE, photographs(folder), tmp_path / "bare.safetensors", ENCODER, tmp_path / "run")


def test_a_tuning_does_not_go_on_with_other_pixels(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    tuning(folder, tmp_path / "run").checkpoint.save(0)
    assert tuning(folder, tmp_path / "run").checkpoint.resume() == 0
    PIL.Image.new("RGB", (50, 40)).save(folder / LINES[-1].image)
    with pytest.raises(UnusableCheckpoint, match="was begun on other contents of photographs"):
        tuning(folder, tmp_path / "run").checkpoint.resume()
