"""Extractors that are given no pictures."""

from collections.abc import Callable, Sequence

import PIL.Image
import torch

from models.extractors.base import Detections


def check_no_pictures(extract: Callable[[Sequence[PIL.Image.Image]], Detections]) -> None:
    """Assert that no pictures give no regions, in the shapes and types of those that a picture gives."""
    some, none = extract([PIL.Image.new("RGB", (64, 48), "red")])[:0].tensors(), extract([]).tensors()
    assert {name: (tensor.shape, tensor.dtype) for name, tensor in none.items()} == {
        name: (tensor.shape, tensor.dtype) for name, tensor in some.items()
    }
    assert all(torch.equal(some[name], tensor) for name, tensor in none.items())
