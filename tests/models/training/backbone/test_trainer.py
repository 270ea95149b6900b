"""Fine-tuning of a backbone: what learns, what stays, and that a kill changes nothing."""

import signal
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from torchvision.models import mobilenet_v2

from models.datasets.captions import CaptionedPhotographs, CaptionLine
from models.extractors.backbones.base import BACKBONE_FILE, STRIDE, Backbone, read_layers
from models.extractors.backbones.registry import BACKBONES, build_backbone
from models.training.backbone.photograph_batches import PhotographBatches
from models.training.backbone.recipe import BackboneRecipe
from models.training.backbone.tiles import means_inside, tile_boxes, tile_means, tile_regions
from models.training.backbone.trainer import BackboneTraining
from models.training.checkpoints import UnusableCheckpoint
from models.training.stopping import Stopped

RECIPE = BackboneRecipe(side=64, batch=4, lead_steps=3, epochs=3, save_every=1, frozen_layers=3)
COLOURS = ("red", "green", "blue", "white", "black", "yellow", "grey", "pink")


def write_photographs(folder: Path) -> list[CaptionLine]:
    """Photographs of noise around a colour, and the weights they are tuned from."""
    torch.manual_seed(0)
    save_file(mobilenet_v2().state_dict(), folder / "published.safetensors")
    random = np.random.default_rng(0)
    for colour in COLOURS:
        noise = random.integers(0, 60, (40, 50, 3), np.uint8)
        PIL.Image.fromarray(noise + random.integers(0, 190, 3, np.uint8)).save(folder / f"{colour}.png")
    return [CaptionLine(f"{colour}.png", (f"a {colour} wall", f"all {colour} here")) for colour in COLOURS]


@pytest.fixture
def lines(tmp_path: Path) -> list[CaptionLine]:
    return write_photographs(tmp_path)


def tuning(
    lines: list[CaptionLine], folder: Path, out: str = "run", recipe: BackboneRecipe = RECIPE
) -> BackboneTraining:
    return BackboneTraining(
        recipe, CaptionedPhotographs(folder, lines, lines[:4]), folder / "published.safetensors", folder / out
    )


@dataclass(frozen=True)
class Finished:
    """A tuning to its end, which tests leave as it is: with what it gave and told."""

    lines: list[CaptionLine]
    folder: Path
    run: BackboneTraining
    tuned: Backbone
    told: list[dict[str, object]]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder, told = tmp_path_factory.mktemp("tuning"), list[dict[str, object]]()
    lines = write_photographs(folder)
    run = tuning(lines, folder)
    before = torch.get_num_threads()
    torch.set_num_threads(2)  # as whoever is compared with it
    tuned = run.run(told.append)
    torch.set_num_threads(before)
    return Finished(lines, folder, run, tuned, told)


@pytest.mark.slow
def test_late_layers_learn_and_early_ones_and_statistics_stay(finished: Finished) -> None:
    run, tuned, seen = finished.run, finished.tuned, finished.told
    before = read_layers(BACKBONES["mobilenet-v2"], finished.folder / "published.safetensors").state_dict()
    after = run.backbone.features.state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed
    assert not {name for name in changed if int(name.split(".")[0]) < 3 or "running" in name}
    assert [entry["step"] for entry in seen if "pooled" in entry] == [1, 2, 3, 4, 5, 6]
    assert [entry["step"] for entry in seen if "validation" in entry] == [0, 2, 4, 6]
    pixels = torch.rand(1, 3, 64, 64)
    with torch.no_grad():
        expected = Backbone(BACKBONES["mobilenet-v2"], run.backbone.features)(pixels).stride32
        saved = build_backbone("mobilenet-v2", run.out / BACKBONE_FILE)
        scale = expected.abs().max()  # untrained layers give tiny numbers
        for backbone in (tuned, saved):
            torch.testing.assert_close(backbone(pixels).stride32 / scale, expected / scale, rtol=0, atol=1e-3)


@pytest.mark.slow
@pytest.mark.usefixtures("two_threads")
def test_a_killed_tuning_ends_with_the_same_weights(
    finished: Finished, lines: list[CaptionLine], tmp_path: Path
) -> None:
    def killed(entry: dict[str, object]) -> None:
        if entry["step"] == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tuning(lines, tmp_path).run(killed)
    steps: list[object] = []

    def stopped(entry: dict[str, object]) -> None:
        steps.append(entry["step"])
        if entry["step"] == 5:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Stopped):
        tuning(lines, tmp_path).run(stopped)
    again = tuning(lines, tmp_path)
    resumed = again.run(lambda entry: steps.append(entry["step"]))
    assert steps == [4, 4, 5, 6, 6]
    for name, value in finished.tuned.features.state_dict().items():
        assert torch.equal(value, resumed.features.state_dict()[name]), name
    other = [*lines[:-1], replace(lines[-1], captions=("another caption",))]
    with pytest.raises(UnusableCheckpoint, match="was begun on other captions"):
        tuning(other, tmp_path).run(lambda entry: None)


@pytest.mark.slow
def test_a_second_tuning_begins_where_the_first_ended(finished: Finished, tmp_path: Path) -> None:
    first, published = finished.run, finished.folder / "published.safetensors"
    second = BackboneTraining(RECIPE, first.photographs, published, tmp_path / "second", initial=first.out)
    seen: list[dict[str, object]] = []
    second.run(seen.append)
    assert seen[0] == {"step": 0, "steps": 6, "validation": first.validate()}
    assert seen[-1] != seen[0]


@pytest.mark.slow
def test_another_recipe_does_not_go_on(finished: Finished) -> None:
    other = tuning(finished.lines, finished.folder, recipe=BackboneRecipe(side=64, batch=4, lead_steps=3, epochs=4))
    with pytest.raises(ValueError, match="another recipe"):
        other.run(lambda entry: None)


def test_every_photograph_comes_once_an_epoch_with_a_caption_of_its_own(
    lines: list[CaptionLine], tmp_path: Path
) -> None:
    batches = PhotographBatches(RECIPE, CaptionedPhotographs(tmp_path, lines))
    plan = list(batches.after(0))
    assert len(plan) == 6
    for epoch in range(3):
        rows = np.concatenate([batch.numbers for batch in plan[2 * epoch : 2 * epoch + 2]])
        assert sorted(rows) == list(range(8))
    for batch in plan:
        assert batch.pixels.shape == (4, 3, 64, 64)
        assert all(text in lines[row].captions for row, text in zip(batch.numbers, batch.sentences, strict=True))
    later = list(batches.after(3))
    assert all(torch.equal(a.pixels, b.pixels) for a, b in zip(plan[3:], later, strict=True))


def test_tiles_cover_the_picture_and_their_features_are_their_means() -> None:
    boxes = tile_boxes()
    assert len(boxes) == 14
    assert boxes.min() == 0
    torch.testing.assert_close(boxes.amax(0)[2:], torch.ones(2))
    maps = torch.arange(8.0).expand(1, 1, 8, 8)  # a ramp from left to right
    vectors: Tensor = tile_regions(maps).vectors
    middles = boxes[:, ::2].mean(1) * 8 - 0.5
    torch.testing.assert_close(vectors[0, 1:, 0], middles[1:], rtol=0, atol=0.3)
    torch.testing.assert_close(tile_means(maps)[0, :, 0], middles[1:], rtol=0, atol=0.3)
    boxed = torch.cat([torch.zeros(13, 1), boxes[1:] * 8 * STRIDE], 1)
    torch.testing.assert_close(means_inside(maps, boxed)[0, :, 0], middles[1:], rtol=0, atol=0.3)


def test_a_tuning_does_not_go_on_with_other_pixels(lines: list[CaptionLine], tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    tuning(lines, tmp_path).checkpoint.save(0)
    assert tuning(lines, tmp_path).checkpoint.resume() == 0
    PIL.Image.new("RGB", (50, 40)).save(tmp_path / lines[-1].image)
    with pytest.raises(UnusableCheckpoint, match="was begun on other contents of photographs"):
        tuning(lines, tmp_path).checkpoint.resume()
