"""Photographs as a backbone's tuning reads them."""

from pathlib import Path

import PIL.Image
import pytest
import torch
from torch import Tensor

from models.datasets.captions import CaptionedPhotographs, CaptionLine
from models.datasets.photographs import UnreadablePhotograph
from models.training.backbone.head_fitting import HeadRecipe
from models.training.backbone.photograph_batches import PhotographBatches
from models.training.backbone.recipe import BackboneRecipe
from models.training.backbone.sentence_tuning import SentenceTuningRecipe

ORIENTATION, TURNED = 0x0112, 6


@pytest.fixture
def lines(tmp_path: Path) -> list[CaptionLine]:
    """A photograph, dark on its left, and the same one as a camera writes it that was held upright."""
    photograph = PIL.Image.new("RGB", (64, 64), "white")
    photograph.paste("black", (0, 0, 32, 64))
    photograph.save(tmp_path / "level.png")
    exif = PIL.Image.Exif()
    exif[ORIENTATION] = TURNED
    photograph.transpose(PIL.Image.Transpose.ROTATE_90).save(tmp_path / "turned.png", exif=exif)
    return [CaptionLine(name, ("a wall",)) for name in ("level.png", "turned.png")]


def unchanged(folder: Path, lines: list[CaptionLine]) -> Tensor:
    batches = PhotographBatches(BackboneRecipe(side=8), CaptionedPhotographs(folder, lines))
    return torch.cat(list(batches.unchanged(lines)))


def test_photographs_are_upright(tmp_path: Path, lines: list[CaptionLine]) -> None:
    level, turned = unchanged(tmp_path, lines)
    assert torch.equal(level, turned)
    assert level[:, :, :3].max() < 16
    assert level[:, :, 5:].min() > 240


def test_a_damaged_photograph_is_named(tmp_path: Path, lines: list[CaptionLine]) -> None:
    (tmp_path / "level.png").write_bytes(b"cut")
    with pytest.raises(UnreadablePhotograph, match=r"level\.png"):
        unchanged(tmp_path, lines)


@pytest.mark.parametrize("kind", [BackboneRecipe, SentenceTuningRecipe, HeadRecipe])
@pytest.mark.parametrize(("name", "value"), [("batch", 1), ("epochs", 0)])
def test_a_recipe_without_batches_to_learn_from_is_refused(kind: type, name: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"{name} must be {value + 1} or more"):
        kind(**{name: value})
