"""Resizing of pictures for a detector."""

from collections.abc import Sequence

import numpy as np
import PIL.Image
import torch
from jaxtyping import UInt8
from torch import Tensor

MAX_ASPECT = 4.0  # pictures beyond it are squeezed: 3000x10 becomes 4:1


def fit_size(width: int, height: int, side: float, multiple: int) -> tuple[int, int]:
    """Width and height of about side**2 pixels with nearly the given aspect ratio, both multiples of `multiple`."""
    root = min(max(width / height, 1 / MAX_ASPECT), MAX_ASPECT) ** 0.5
    across, down = (max(1, round(length / multiple)) * multiple for length in (side * root, side / root))
    return across, down


def stack_resized(pictures: Sequence[PIL.Image.Image], size: tuple[int, int]) -> UInt8[Tensor, "K 3 H W"]:
    """A batch of pictures, each stretched to `size` (width, height)."""
    resized = [
        np.asarray(picture.resize(size, PIL.Image.Resampling.BILINEAR, reducing_gap=3.0)) for picture in pictures
    ]
    return torch.from_numpy(np.stack(resized)).permute(0, 3, 1, 2)
