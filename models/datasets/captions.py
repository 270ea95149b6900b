"""Caption files: JSON lines (a picture, its captions, its split), text with a caption a line, and COCO's JSON."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class CaptionLine:
    """One line of a JSON-lines file: a picture's path relative to its folder, its captions, its split."""

    image: str
    captions: tuple[str, ...]
    split: str | None = None


def half_slices(num: int) -> dict[str, slice]:
    """The `first` and the `second` half of `num` pictures: of Flickr8k's dev split the first 500 and the others."""
    return {"first": slice(0, num // 2), "second": slice(num // 2, num)}


def read_captions(path: Path, split: str | None = None) -> list[CaptionLine]:
    """The pictures of a JSON-lines file, of one split if it is given.

    ValueError names a line that is not as `iter_captions` expects, or the file where no picture is left.
    """
    lines = [line for line in iter_captions(path) if split is None or line.split == split]
    if not lines:
        raise ValueError(f"{path} has no picture" + (f" in split {split!r}" if split else ""))
    return lines


def iter_captions(path: Path) -> Iterator[CaptionLine]:
    """Every line `{"image": "..", "captions": ["..", ..], "split": ".."}` of a file; the split may be missing.

    ValueError names a line that is something else, or has a caption without a word.
    """
    for number, text in enumerate(_lines(path), 1):
        try:
            yield _caption_line(json.loads(text))
        except (ValueError, KeyError, TypeError) as problem:
            raise ValueError(f'{path}:{number}: expected {{"image": "...", "captions": ["..."]}}') from problem


def _caption_line(stored: dict[str, Any]) -> CaptionLine:
    image, captions = stored["image"], stored["captions"]
    if not isinstance(image, str):
        raise TypeError("a picture is named by its path")
    if not isinstance(captions, list) or not all(isinstance(text, str) and text.strip() for text in captions):
        raise TypeError("captions are a list of sentences")
    return CaptionLine(image, tuple(captions), stored.get("split"))


def read_sentences(path: Path, split: str = "train") -> list[str]:
    """All captions of a file, in its order, without their pictures.

    .jsonl is read as JSON lines, of which those of `split` and those without a split count; .json as COCO's caption
    annotations; any other file as text with a caption a line, blank lines left out.
    """
    if path.suffix == ".jsonl":
        return [text for line in read_captions(path) if line.split in (None, split) for text in line.captions]
    if path.suffix == ".json":
        try:
            return [annotation["caption"] for annotation in json.loads(path.read_text(encoding="utf-8"))["annotations"]]
        except (ValueError, KeyError, TypeError) as problem:
            raise ValueError(f'{path}: expected COCO\'s {{"annotations": [{{"caption": "..."}}]}}') from problem
    return [line.strip() for line in _lines(path) if line.strip()]


def read_lines(path: Path, what: str = "a caption") -> list[str]:
    """The lines of a text file of which each is `what`, without the white space around.

    Lines end at line feeds alone, as in the loaders of the published models. ValueError names a blank line, or the
    file where it is empty.
    """
    lines = [line.strip() for line in _lines(path)]
    if "" in lines:
        raise ValueError(f"{path}:{lines.index('') + 1}: an empty line, where every line is {what}")
    if not lines:
        raise ValueError(f"{path} is empty, where every line is {what}")
    return lines


def captioned_photographs(folder: Path, lines: Iterable[CaptionLine]) -> dict[str, Path]:
    """Name -> file of the captioned pictures in a folder; ValueError names one that is not there."""
    photographs = {line.image: folder / line.image for line in lines}
    missing = [name for name, file in photographs.items() if not file.is_file()]
    if missing:
        raise ValueError(f"{folder} lacks {len(missing)} of {len(photographs)} captioned pictures, as {missing[0]}")
    return photographs


def _lines(path: Path) -> list[str]:
    """Lines that end at line feeds alone; the last one needs none."""
    lines = path.read_bytes().decode("utf-8").split("\n")
    return lines[:-1] if not lines[-1] else lines
