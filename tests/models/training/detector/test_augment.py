"""Boxes go where their pixels go."""

import numpy as np
import PIL.Image
import PIL.ImageDraw
import pytest

from models.training.detector.augment import random_view
from models.training.detector.pseudo_labels import Lesson


def photograph_of_a_thing() -> tuple[PIL.Image.Image, Lesson]:
    picture = PIL.Image.new("RGB", (200, 200), (0, 0, 60))
    PIL.ImageDraw.Draw(picture).rectangle((60, 80, 119, 179), fill=(255, 60, 60))
    box = np.array([[0.3, 0.4, 0.6, 0.9]], np.float32)
    return picture, Lesson(box, np.array([7]), np.array([0.9], np.float32))


@pytest.mark.parametrize("seed", range(20))
def test_the_box_still_surrounds_its_thing(seed: int) -> None:
    picture, lesson = photograph_of_a_thing()
    view = random_view(picture, lesson, (320, 160), 0.6, np.random.default_rng(seed))
    assert view.pixels.shape == (3, 160, 320)
    rows, columns = (view.pixels[0] > 100).nonzero(as_tuple=True)
    assert len(view.target["boxes"]) == 1
    assert view.target["labels"].tolist() == [8]
    seen = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
    assert view.target["boxes"][0].tolist() == pytest.approx([float(edge) for edge in seen], abs=2)


def test_a_thing_cropped_away_is_not_taught() -> None:
    picture, lesson = photograph_of_a_thing()
    random = np.random.default_rng(0)
    for _ in range(200):
        view = random_view(picture, lesson, (64, 64), 0.2, random)
        visible = (view.pixels[0] > 100).float().mean()
        assert len(view.target["boxes"]) <= (visible > 0)
