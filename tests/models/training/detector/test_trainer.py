"""Training of the detector: the same recipe gives the same weights, killed or not."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from torchvision.models import mobilenet_v2

from models.extractors.backbones.base import untrained_backbone
from models.extractors.backbones.registry import BACKBONES
from models.extractors.coco_classes import COCO_CLASSES
from models.extractors.faster_rcnn.config import DetectorConfig
from models.extractors.faster_rcnn.extractor import FasterRcnn, load_detector, save_detector
from models.training.checkpoints import UnusableCheckpoint
from models.training.detector.pseudo_labels import begin_cache, label_photographs, read_pseudo_labels
from models.training.detector.recipe import DetectorBatches, DetectorRecipe, learning_rate_at
from models.training.detector.trainer import PSEUDO_LABELS_FILE, open_labeler, train_detector, untrained_detector
from models.training.inputs import digest_of_file
from tests.models.training.detector.test_pseudo_labels import OneBoxLabeler

RECIPE = DetectorRecipe(steps=4, batch=2, warmup=2, save_every=2, sides=(64.0, 96.0))


@pytest.fixture
def material(tmp_path: Path) -> dict[str, Path]:
    """Photographs by name, and under "backbone" an untrained MobileNetV2."""
    torch.manual_seed(0)
    save_file(mobilenet_v2().state_dict(), tmp_path / "backbone.safetensors")
    random = np.random.default_rng(0)
    files = {}
    for number in range(5):
        files[f"{number}.png"] = tmp_path / f"{number}.png"
        PIL.Image.fromarray(random.integers(0, 256, (32, 32, 3), np.uint8)).save(files[f"{number}.png"])
    return files | {"backbone": tmp_path / "backbone.safetensors"}


def train(
    material: dict[str, Path], out: Path, recipe: DetectorRecipe = RECIPE, teacher: str = "a teacher"
) -> dict[str, Tensor]:
    """Trains in `out`, where all pseudo-labels are in the cache already; the weights."""
    photographs = {name: path for name, path in material.items() if name != "backbone"}
    out.mkdir(exist_ok=True)
    teacher_file = out.with_suffix(".teacher")  # of which no more is read than what it is
    teacher_file.write_text(teacher)
    if not (out / PSEUDO_LABELS_FILE).exists():
        begin_cache(out / PSEUDO_LABELS_FILE, [digest_of_file(teacher_file)])
    list(label_photographs(OneBoxLabeler(), photographs, out / PSEUDO_LABELS_FILE))
    detector = train_detector(
        recipe,
        photographs=photographs,
        backbone_file=material["backbone"],
        teacher_file=teacher_file,
        out=out,
        threads=1,
    )
    return detector.state_dict()


@pytest.mark.slow
def test_a_killed_training_ends_with_the_same_weights(
    material: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train(material, tmp_path / "whole")
    steps = 0

    def killed_in_the_fourth(*args: Any, **kwargs: Any) -> dict[str, Tensor]:
        nonlocal steps
        steps += 1
        if steps == 4:
            raise KeyboardInterrupt
        return losses(*args, **kwargs)

    losses = FasterRcnn.losses
    with monkeypatch.context() as patched:
        patched.setattr(FasterRcnn, "losses", killed_in_the_fourth)
        with pytest.raises(KeyboardInterrupt):
            train(material, tmp_path / "killed")
    again = train(material, tmp_path / "killed")
    assert all(torch.equal(again[name], whole[name]) for name in whole)
    shipped = load_detector(tmp_path / "killed" / "detector").state_dict()
    assert all(torch.equal(shipped[name], whole[name].half().float()) for name in whole)


def test_other_teachers_photographs_and_backbones_do_not_go_on(material: dict[str, Path], tmp_path: Path) -> None:
    train(material, tmp_path / "out")
    with pytest.raises(UnusableCheckpoint, match=r"lessons\.jsonl holds labels of other teachers"):
        train(material, tmp_path / "out", teacher="another")
    fewer = {name: path for name, path in material.items() if name != "0.png"}
    with pytest.raises(UnusableCheckpoint, match="was begun on other photographs"):
        train(fewer, tmp_path / "out")
    pixels = material["0.png"].read_bytes()
    PIL.Image.new("RGB", (32, 32)).save(material["0.png"])
    with pytest.raises(UnusableCheckpoint, match="was begun on other contents of photographs"):
        train(material, tmp_path / "out")
    material["0.png"].write_bytes(pixels)
    torch.manual_seed(7)
    other = tmp_path / "other.safetensors"
    untrained_backbone(BACKBONES["mobilenet-v2"]).save(other)
    with pytest.raises(UnusableCheckpoint, match="was begun on other backbone"):
        train({**material, "backbone": other}, tmp_path / "out")


def test_labels_of_an_earlier_release_are_taken_for_the_teachers_own(tmp_path: Path) -> None:
    cache = tmp_path / PSEUDO_LABELS_FILE
    cache.write_text('{"name": "a", "boxes": [], "labels": [], "scores": []}\n')
    begin_cache(cache, ["x"])
    assert list(read_pseudo_labels(cache)) == ["a"]


def test_another_recipe_does_not_go_on_from_a_checkpoint(material: dict[str, Path], tmp_path: Path) -> None:
    train(material, tmp_path / "out")
    with pytest.raises(ValueError, match="another recipe"):
        train(material, tmp_path / "out", DetectorRecipe(steps=6, batch=2, warmup=2, save_every=2))


def test_a_training_starts_from_another_detectors_parts(material: dict[str, Path], tmp_path: Path) -> None:
    torch.manual_seed(1)
    start = FasterRcnn(DetectorConfig(labels=COCO_CLASSES))
    save_detector(start, tmp_path / "start")
    detector = untrained_detector(replace(RECIPE, starts_from=str(tmp_path / "start")), material["backbone"])
    theirs, ours = load_detector(tmp_path / "start").state_dict(), detector.state_dict()
    differing = {name.partition(".")[0] for name in ours if not torch.equal(ours[name], theirs[name])}
    assert differing == {"backbone"}
    save_detector(FasterRcnn(DetectorConfig(labels=COCO_CLASSES, neck_width=8)), tmp_path / "narrow")
    with pytest.raises(ValueError, match="another layout"):
        untrained_detector(replace(RECIPE, starts_from=str(tmp_path / "narrow")), material["backbone"])


def test_a_teacher_is_known_by_its_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is no teacher"):
        open_labeler(tmp_path / "teacher.bin", threads=1)


def test_batches_follow_from_recipe_and_step(material: dict[str, Path], tmp_path: Path) -> None:
    photographs = {name: path for name, path in material.items() if name != "backbone"}
    labeler = OneBoxLabeler()
    labels = {name: labeler.label(PIL.Image.open(path)) for name, path in photographs.items()}
    batches = DetectorBatches(RECIPE, photographs, labels)
    first, same, next_one = (batches.make(step) for step in (3, 3, 4))
    assert all(torch.equal(one.pixels, other.pixels) for one, other in zip(first, same, strict=True))
    assert [picture.pixels.shape for picture in first] != [picture.pixels.shape for picture in next_one]


def test_the_learning_rate_warms_up_and_ends_at_zero() -> None:
    rates = [learning_rate_at(RECIPE, step) for step in range(RECIPE.steps + 1)]
    assert rates[1] == max(rates) == RECIPE.learning_rate
    assert rates[0] == RECIPE.learning_rate / 2
    assert rates[-1] == pytest.approx(0)


def test_a_cache_whose_first_line_a_kill_cut_short_is_begun_anew(tmp_path: Path) -> None:
    cache = tmp_path / PSEUDO_LABELS_FILE
    cache.write_text('{"teach')
    begin_cache(cache, ["x"])
    assert read_pseudo_labels(cache) == {}
    with pytest.raises(UnusableCheckpoint, match="labels of other teachers"):
        begin_cache(cache, ["y"])
