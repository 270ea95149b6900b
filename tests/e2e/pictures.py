"""Pictures to ingest: photographs where there are some, painted ones where there are none."""

import json
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import PIL.Image
import PIL.ImageDraw

from tests.support.pictures import encoded

COLOURS = {"red": "#d22", "green": "#2a3", "blue": "#24d", "yellow": "#ed2", "white": "#fff", "black": "#000"}


@dataclass(frozen=True)
class Photo:
    """A file to upload and what it shows."""

    name: str
    content: bytes
    captions: tuple[str, ...]


def photos(count: int, split: str = "dev") -> list[Photo]:
    """The first `count` photographs of a split of the test data; without test data, painted pictures."""
    folder = os.environ.get("REGARD_TEST_DATA")
    return from_flickr(Path(folder) / "flickr8k", count, split) if folder else painted(count)


def from_flickr(folder: Path, count: int, split: str) -> list[Photo]:
    """The first `count` photographs of a split, in the order of captions.jsonl."""
    lines = (folder / "captions.jsonl").read_text(encoding="utf-8").splitlines()
    chosen = [one for one in map(json.loads, lines) if one["split"] == split][:count]
    assert len(chosen) == count, f"only {len(chosen)} photographs in {split}"
    return [
        Photo(Path(one["image"]).name, (folder / one["image"]).read_bytes(), tuple(one["captions"])) for one in chosen
    ]


def painted(count: int, seed: int = 0) -> list[Photo]:
    """Coloured shapes of random sizes on coloured grounds, no two alike."""
    return [paint(random.Random(seed * 1_000_003 + number), f"painted-{number}.png") for number in range(count)]


def paint(rng: random.Random, name: str) -> Photo:
    """One picture, drawn by the random numbers given."""
    ground, *inks = rng.sample(sorted(COLOURS), 3)
    picture = PIL.Image.new("RGB", (rng.randrange(160, 320), rng.randrange(160, 320)), COLOURS[ground])
    draw = PIL.ImageDraw.Draw(picture)
    for ink, shape in zip(inks, (draw.ellipse, draw.rectangle), strict=True):
        left, top = rng.randrange(0, 120), rng.randrange(0, 120)
        box = (left, top, left + rng.randrange(30, 150), top + rng.randrange(30, 150))
        shape(box, fill=COLOURS[ink])
    sentence = f"a {inks[0]} ball and a {inks[1]} box on a {ground} ground"
    return Photo(name, encoded(picture, "PNG"), (sentence,))


def queries(pictures: Sequence[Photo], count: int) -> list[str]:
    """One sentence of each of the first `count` pictures."""
    return [picture.captions[0] for picture in pictures[:count]]
