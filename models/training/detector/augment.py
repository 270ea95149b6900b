"""Random augmentation of photographs, with the boxes in them, for the training of detectors and backbones."""

from typing import NamedTuple

import numpy as np
import PIL.Image
import PIL.ImageEnhance
import torch
from torch import Tensor

from models.training.detector.pseudo_labels import PseudoLabels

MIN_VISIBLE = 0.4  # least share of a box's area inside the crop; other boxes are dropped
ENHANCERS = (PIL.ImageEnhance.Brightness, PIL.ImageEnhance.Contrast, PIL.ImageEnhance.Color)
ENHANCEMENT = (0.7, 1.3)


class TrainingPicture(NamedTuple):
    """An augmented photograph and its boxes."""

    pixels: Tensor
    """[3 H W] uint8."""
    target: dict[str, Tensor]
    """In torchvision's form: "boxes" [N 4] in pixels and "labels" [N], of which 0 would be background."""


def augment(
    photograph: PIL.Image.Image,
    labels: PseudoLabels,
    size: tuple[int, int],
    least_crop: float,
    random: np.random.Generator,
) -> TrainingPicture:
    """A random crop stretched to `size` (width, height), randomly mirrored, with random colour changes.

    Its sides are at least `least_crop` of the photograph's.
    """
    share = random.uniform(least_crop, 1, 2)
    corner = random.uniform(0, 1 - share)
    boxes, visible = _crop_boxes(labels.boxes, corner, share)
    window = np.concatenate([corner, corner + share]) * np.tile(photograph.size, 2)
    picture = photograph.resize(size, PIL.Image.Resampling.BILINEAR, box=tuple(window))
    for enhancer in ENHANCERS:
        picture = enhancer(picture).enhance(random.uniform(*ENHANCEMENT))
    if random.random() < 0.5:
        picture = picture.transpose(PIL.Image.Transpose.FLIP_LEFT_RIGHT)
        boxes = np.stack([1 - boxes[:, 2], boxes[:, 1], 1 - boxes[:, 0], boxes[:, 3]], 1)
    in_pixels = (boxes[visible] * np.tile(size, 2)).astype(np.float32)
    target = {"boxes": torch.from_numpy(in_pixels), "labels": torch.from_numpy(labels.labels[visible] + 1)}
    return TrainingPicture(torch.from_numpy(np.array(picture)).permute(2, 0, 1), target)


def _crop_boxes(boxes: np.ndarray, corner: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Boxes as fractions of the crop, and the mask of those that are sufficiently visible."""
    moved = (boxes - np.tile(corner, 2)) / np.tile(share, 2)
    inside = moved.clip(0, 1)
    visible = _area(inside) >= MIN_VISIBLE * _area(moved)
    return inside, visible & (_area(inside) > 0)


def _area(boxes: np.ndarray) -> np.ndarray:
    area: np.ndarray = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    return area
