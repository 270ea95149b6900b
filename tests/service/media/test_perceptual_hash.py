"""Perceptual hashes: near for what looks the same, far for what does not, none for what shows nothing."""

import io

import numpy as np
import PIL.Image
import PIL.ImageEnhance
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.media.perceptual_hash import NO_HASH, SIDE, perceptual_hash


def scenery(seed: int, width: int = 320, height: int = 240) -> PIL.Image.Image:
    """A picture of large soft patches, such as a photograph out of focus."""
    patches = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return PIL.Image.fromarray(patches).resize((width, height), PIL.Image.Resampling.BICUBIC)


def bits_between(one: PIL.Image.Image, other: PIL.Image.Image) -> int:
    first, second = perceptual_hash(one), perceptual_hash(other)
    assert len(first) == len(second) == 8
    return (int.from_bytes(first) ^ int.from_bytes(second)).bit_count()


def as_jpeg(picture: PIL.Image.Image, quality: int) -> PIL.Image.Image:
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=quality)
    return PIL.Image.open(buffer).convert("RGB")


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), quality=st.integers(60, 95), width=st.integers(120, 900))
def test_copies_in_other_sizes_and_qualities_are_near(seed: int, quality: int, width: int) -> None:
    picture = scenery(seed)
    copy = as_jpeg(picture.resize((width, 3 * width // 4), PIL.Image.Resampling.BICUBIC), quality)
    assert bits_between(picture, copy) <= 4


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_little_more_or_less_light_changes_few_bits(factor: float) -> None:
    near = [
        bits_between(scenery(seed), PIL.ImageEnhance.Brightness(scenery(seed)).enhance(factor)) for seed in range(20)
    ]
    assert sorted(near)[10] <= 4


def test_other_pictures_are_far() -> None:
    pictures = [scenery(seed) for seed in range(40)]
    far = [bits_between(a, b) for n, a in enumerate(pictures) for b in pictures[:n]]
    assert min(far) > 4
    assert 24 < np.mean(far) < 40  # half of the bits


@pytest.mark.parametrize("colour", ["black", "white", "grey", "red"])
def test_a_picture_without_structure_has_no_hash(colour: str) -> None:
    assert perceptual_hash(PIL.Image.new("RGB", (200, 100), colour)) == NO_HASH
    assert perceptual_hash(as_jpeg(PIL.Image.new("RGB", (200, 100), colour), 60)) == NO_HASH


def test_the_hash_is_that_of_the_definition_in_plain_loops() -> None:
    picture = scenery(3)
    grey = np.asarray(picture.convert("L").resize((SIDE, SIDE), PIL.Image.Resampling.LANCZOS), np.float64)
    low = np.zeros((8, 8))
    for v in range(8):
        for u in range(8):
            for y in range(SIDE):
                for x in range(SIDE):
                    wave = np.cos(np.pi * v * (2 * y + 1) / 64) * np.cos(np.pi * u * (2 * x + 1) / 64)
                    low[v, u] += grey[y, x] * wave
    low[abs(low) < 512] = 0  # about a shade of grey
    ordinary = sorted(low.ravel()[1:])[31]
    expected = [int(value > ordinary) for value in low.ravel()]
    assert perceptual_hash(picture) == np.packbits(expected).tobytes()


def test_a_hash_is_what_it_was_when_it_was_stored() -> None:
    y, x = np.mgrid[:96, :128]
    patches = ((x // 8 * 9 + y // 8 * 7) ** 2 * 7 % 256).astype(np.uint8)
    picture = PIL.Image.fromarray(np.stack([patches, patches, 255 - patches], axis=-1))
    assert perceptual_hash(picture).hex() == "a41144e600c48010"


@given(width=st.integers(1, 40), height=st.integers(1, 40))
def test_any_size_has_a_hash_or_none(width: int, height: int) -> None:
    assert len(perceptual_hash(scenery(1, width, height))) in (0, 8)
