"""Random views of photographs with the boxes that belong to them, for training a detector."""

from typing import NamedTuple

import numpy as np
import PIL.Image
import PIL.ImageEnhance
import torch
from torch import Tensor

from models.training.detector.pseudo_labels import Lesson

LEAST_VISIBLE = 0.4  # of a box's area, or the view no longer shows the thing
ENHANCERS = (PIL.ImageEnhance.Brightness, PIL.ImageEnhance.Contrast, PIL.ImageEnhance.Color)
COLOUR = (0.7, 1.3)


class View(NamedTuple):
    """One picture to train on."""

    pixels: Tensor
    """[3 H W] uint8."""
    target: dict[str, Tensor]
    """torchvision's: boxes [N 4] in pixels, labels [N] of which 0 would be background."""


def random_view(
    photograph: PIL.Image.Image,
    lesson: Lesson,
    size: tuple[int, int],
    least_crop: float,
    random: np.random.Generator,
) -> View:
    """A crop with sides of at least `least_crop`, stretched to `size` (width, height), maybe mirrored, recoloured."""
    share = random.uniform(least_crop, 1, 2)
    corner = random.uniform(0, 1 - share)
    boxes, seen = _cropped(lesson.boxes, corner, share)
    window = np.concatenate([corner, corner + share]) * np.tile(photograph.size, 2)
    picture = photograph.resize(size, PIL.Image.Resampling.BILINEAR, box=tuple(window))
    for enhancer in ENHANCERS:
        picture = enhancer(picture).enhance(random.uniform(*COLOUR))
    if random.random() < 0.5:
        picture = picture.transpose(PIL.Image.Transpose.FLIP_LEFT_RIGHT)
        boxes = np.stack([1 - boxes[:, 2], boxes[:, 1], 1 - boxes[:, 0], boxes[:, 3]], 1)
    in_pixels = (boxes[seen] * np.tile(size, 2)).astype(np.float32)
    target = {"boxes": torch.from_numpy(in_pixels), "labels": torch.from_numpy(lesson.labels[seen] + 1)}
    return View(torch.from_numpy(np.array(picture)).permute(2, 0, 1), target)


def _cropped(boxes: np.ndarray, corner: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Boxes as fractions of the crop, and which of them are still seen well enough."""
    moved = (boxes - np.tile(corner, 2)) / np.tile(share, 2)
    inside = moved.clip(0, 1)
    seen = _area(inside) >= LEAST_VISIBLE * _area(moved)
    return inside, seen & (_area(inside) > 0)


def _area(boxes: np.ndarray) -> np.ndarray:
    area: np.ndarray = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    return area
