"""Captions files: a JSON object a line that names a picture and its captions. Imports nothing but the standard library.

Commands read them before they import PyTorch, so that a wrong file is refused at once.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class CaptionLine:
    """One line of a captions file: a picture's path relative to its folder, its captions, its split."""

    image: str
    captions: tuple[str, ...]
    split: str | None = None


def read_captions(path: Path, split: str | None = None) -> list[CaptionLine]:
    """Lines `{"image": .., "captions": [..], "split": ..}`, of one split when it is given.

    ValueError names a line that is none, or has a caption without words, and a file without pictures.
    """
    lines = []
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            line = _line(json.loads(text))
        except (ValueError, KeyError, TypeError) as problem:
            raise ValueError(f'{path}:{number}: expected {{"image": "...", "captions": ["..."]}}') from problem
        if split is None or line.split == split:
            lines.append(line)
    if not lines:
        raise ValueError(f"{path} has no picture" + (f" in split {split!r}" if split else ""))
    return lines


def _line(stored: Any) -> CaptionLine:
    image, captions = stored["image"], stored["captions"]
    if not isinstance(image, str) or not isinstance(captions, list):
        raise TypeError("an image is a string, and captions are a list")
    if not all(isinstance(caption, str) and caption.strip() for caption in captions):
        raise TypeError("a caption is a string with at least one word")
    return CaptionLine(image, tuple(captions), stored.get("split"))


def read_pictures(folder: Path, lines: Iterable[CaptionLine]) -> dict[str, Path]:
    """Name -> file of the captioned pictures in a folder; ValueError names one that is missing."""
    photographs = {line.image: folder / line.image for line in lines}
    missing = [name for name, file in photographs.items() if not file.is_file()]
    if missing:
        raise ValueError(f"{folder} lacks {len(missing)} of {len(photographs)} captioned pictures, as {missing[0]}")
    return photographs
