"""Boxes go where their pixels go."""

import numpy as np
import PIL.Image
import PIL.ImageDraw
import pytest

from models.training.detector.augment import augment
from models.training.detector.pseudo_labels import PseudoLabels


def photograph_of_a_thing() -> tuple[PIL.Image.Image, PseudoLabels]:
    picture = PIL.Image.new("RGB", (200, 200), (0, 0, 60))
    PIL.ImageDraw.Draw(picture).rectangle((60, 80, 119, 179), fill=(255, 60, 60))
    box = np.array([[0.3, 0.4, 0.6, 0.9]], np.float32)
    return picture, PseudoLabels(box, np.array([7]), np.array([0.9], np.float32))


@pytest.mark.parametrize("seed", range(20))
def test_the_box_still_surrounds_its_thing(seed: int) -> None:
    picture, labels = photograph_of_a_thing()
    augmented = augment(picture, labels, (320, 160), 0.6, np.random.default_rng(seed))
    assert augmented.pixels.shape == (3, 160, 320)
    rows, columns = (augmented.pixels[0] > 100).nonzero(as_tuple=True)
    assert len(augmented.target["boxes"]) == 1
    assert augmented.target["labels"].tolist() == [8]
    seen = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
    assert augmented.target["boxes"][0].tolist() == pytest.approx([float(edge) for edge in seen], abs=2)


def test_a_thing_cropped_away_is_left_out() -> None:
    picture, labels = photograph_of_a_thing()
    random = np.random.default_rng(0)
    for _ in range(200):
        augmented = augment(picture, labels, (64, 64), 0.2, random)
        visible = (augmented.pixels[0] > 100).float().mean()
        assert len(augmented.target["boxes"]) <= (visible > 0)
