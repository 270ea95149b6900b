"""Colours are those that a profile means, and no profile keeps a picture from being seen."""

import random
from collections.abc import Callable

import PIL.Image
import pytest

from models.colour_profiles import LARGEST_PROFILE, to_srgb
from tests.support import colour_profiles as profiles

PICTURES: dict[str, tuple[str, float | tuple[float, ...], Callable[[], bytes]]] = {
    "RGB": ("RGB", (250, 10, 10), profiles.swapped),
    "RGBA": ("RGBA", (250, 10, 10, 99), profiles.swapped),
    "grey": ("L", 128, lambda: profiles.grey(1.0)),
    "inks": ("CMYK", (255, 0, 0, 0), profiles.press),
}
MEANT = {"RGB": (10, 10, 250), "RGBA": (10, 10, 250, 99), "grey": (188, 188, 188), "inks": (255, 0, 0)}


@pytest.mark.parametrize("name", PICTURES)
def test_colours_become_those_that_the_profile_means(name: str) -> None:
    mode, colour, profile = PICTURES[name]
    assert to_srgb(PIL.Image.new(mode, (4, 4), colour), profile()).getpixel((1, 1)) == MEANT[name]


@pytest.mark.parametrize(
    ("mode", "profile"),
    [
        ("RGB", None),
        ("RGB", "a text, as a TIFF may hold"),
        ("RGB", b""),
        ("RGB", bytes(200)),
        ("RGB", profiles.srgb()),
        ("RGBA", profiles.srgb()),
        ("RGB", profiles.swapped()[:400]),
        ("RGB", profiles.swapped() + bytes(LARGEST_PROFILE)),
        ("RGB", profiles.grey(1.8)),
        ("RGB", profiles.press()),
        ("L", profiles.swapped()),
        ("CMYK", profiles.swapped()),
        ("CMYK", profiles.made(b"CMYK", b"Lab ", {}, kind=b"prtr")),
        ("RGB", profiles.made(b"RGB ", b"RGB ", {}, kind=b"link")),
    ],
)
def test_a_picture_stays_as_it_is_where_its_profile_says_nothing(mode: str, profile: object) -> None:
    picture = PIL.Image.new(mode, (4, 4))
    assert to_srgb(picture, profile) is picture


@pytest.mark.parametrize("name", PICTURES)
def test_a_damaged_profile_is_used_or_left_alone(name: str) -> None:
    mode, colour, profile = PICTURES[name]
    rng, picture = random.Random(name), PIL.Image.new(mode, (4, 4), colour)
    for _ in range(200):
        content = bytearray(profile())
        for _ in range(rng.choice((1, 4))):
            content[rng.randrange(min(400, len(content)))] = rng.randrange(256)
        assert to_srgb(picture, bytes(content)).size == (4, 4)
