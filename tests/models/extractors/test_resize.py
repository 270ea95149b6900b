"""Sizes at which pictures are looked at."""

import PIL.Image
import torch
from hypothesis import given
from hypothesis import strategies as st

from models.extractors.resize import fit_size, stack_resized


@given(width=st.integers(1, 5000), height=st.integers(1, 5000))
def test_the_size_has_the_area_asked_for_and_nearly_the_aspect(width: int, height: int) -> None:
    across, down = fit_size(width, height, 448.0, 32)
    assert across % 32 == 0
    assert down % 32 == 0
    assert 0.85 * 448**2 < across * down < 1.15 * 448**2
    aspect = min(max(width / height, 0.25), 4)
    assert 0.85 < (across / down) / aspect < 1.18


def test_pictures_are_stretched_to_one_batch() -> None:
    pictures = [PIL.Image.new("RGB", size, colour) for size, colour in (((10, 20), "red"), ((1, 1), "blue"))]
    batch = stack_resized(pictures, (64, 32))
    assert batch.shape == (2, 3, 32, 64)
    assert torch.equal(batch[:, :, 5, 7], torch.tensor([[255, 0, 0], [0, 0, 255]], dtype=torch.uint8))
