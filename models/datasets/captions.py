"""Caption files: JSON lines (a picture, its captions, its split), text with a caption a line, and COCO's JSON."""

import codecs
import json
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WORD_CATEGORIES = ("L", "N", "P", "S", "Cn")  # Cn: a letter or an emoji of a later Unicode than this Python's


@dataclass(frozen=True)
class CaptionLine:
    """One line of a JSON-lines file: a picture's path relative to its folder, its captions, its split.

    `others` are the line's other members, unchanged.
    """

    image: str
    captions: tuple[str, ...]
    split: str | None = None
    others: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class CaptionedPhotographs:
    """Photographs for training and for validation, in the folder of their captions file."""

    folder: Path
    train: Sequence[CaptionLine]
    dev: Sequence[CaptionLine] = ()


def half_slices(num: int) -> dict[str, slice]:
    """The `first` and the `second` half of `num` pictures."""
    return {"first": slice(0, num // 2), "second": slice(num // 2, num)}


def has_word(text: str) -> bool:
    """Whether readers find a word in a text: a letter, digit, punctuation mark or symbol, all of them visible."""
    return any(
        unicodedata.category(char).startswith(WORD_CATEGORIES) for char in text if char != "\N{REPLACEMENT CHARACTER}"
    )


def read_captions(path: Path, split: str | None = None) -> list[CaptionLine]:
    """The pictures of a JSON-lines file, of one split if it is given.

    Raises ValueError for a line that `iter_captions` refuses or that has a caption of invisible characters, for a
    picture that is in the file twice, and if no picture is left.
    """
    lines, seen, splits = [], set[str](), set[str]()
    for number, line in enumerate(iter_captions(path), 1):
        if unread := next((caption for caption in line.captions if not has_word(caption)), None):
            raise ValueError(f"{path}:{number}: the caption {unread!a} has no word to match: take it out")
        if line.image in seen:  # in two splits, a model would be evaluated on a training picture
            raise ValueError(f"{path}: {line.image} comes twice; a picture has one line, with all its captions")
        seen.add(line.image)
        splits |= {line.split} if line.split else set()
        if split is None or line.split == split:
            lines.append(line)
    if not lines:
        there = f"its splits are {', '.join(sorted(splits))}" if splits else 'no line has a "split"'
        raise ValueError(f"{path} has no picture" + (f" in split {split!r}: {there}" if split else ""))
    return lines


def iter_captions(path: Path) -> Iterator[CaptionLine]:
    """Every line `{"image": "..", "captions": ["..", ..], "split": ".."}` of a file; the split may be missing.

    Raises ValueError, which names a line that is something else or has a blank caption.
    """
    for number, text in enumerate(_lines(path), 1):
        try:
            yield _caption_line(text)
        except ValueError as problem:
            expected = 'expected {"image": "...", "captions": ["..."]}'
            raise ValueError(f"{path}:{number}: {expected}, and the line {problem}") from problem


def _caption_line(text: str) -> CaptionLine:
    if not text.strip():
        raise ValueError("is empty")
    try:
        stored = json.loads(text)
    except json.JSONDecodeError as fault:
        raise ValueError(f"is no JSON ({fault.msg}, at character {fault.pos})") from fault
    fields: dict[str, Any] = stored if isinstance(stored, dict) else {}
    captions = fields.get("captions")
    names_image = isinstance(fields.get("image"), str)
    lists_captions = isinstance(captions, list) and all(isinstance(caption, str) for caption in captions)
    if not (names_image and lists_captions):
        raise ValueError("has no list of captions" if names_image else "names no image")
    if not all(caption.strip() for caption in fields["captions"]):
        raise ValueError("has a caption without a word")
    others = {name: value for name, value in fields.items() if name not in ("image", "captions", "split")}
    return CaptionLine(fields["image"], tuple(fields["captions"]), fields.get("split"), others)


def read_sentences(path: Path, split: str = "train") -> list[str]:
    """All captions of a file that have a word, in its order, without their pictures.

    .jsonl is read as JSON lines, of which those of `split` and those without a split count; .json as COCO's caption
    annotations; any other file as text with a caption a line.
    """
    return [text for text in _sentences(path, split) if has_word(text)]


def _sentences(path: Path, split: str) -> list[str]:
    if path.suffix == ".jsonl":
        return [text for line in iter_captions(path) if line.split in (None, split) for text in line.captions]
    if path.suffix == ".json":
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            return [annotation["caption"].strip() for annotation in stored["annotations"]]
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise ValueError(f'{path}: expected COCO\'s {{"annotations": [{{"caption": "..."}}]}}') from problem
    return [line.strip() for line in _lines(path)]


def read_lines(path: Path, what: str = "a caption") -> list[str]:
    """The lines of a text file, stripped; `what` says in messages what each line is.

    Only line feeds end lines, as in the loaders of the published models. Raises ValueError, which names a line that is
    blank or of invisible characters, or an empty file.
    """
    lines = [line.strip() for line in _lines(path)]
    if unread := next((number for number, line in enumerate(lines, 1) if not has_word(line)), None):
        kind = "a line of invisible characters" if lines[unread - 1] else "an empty line"
        raise ValueError(f"{path}:{unread}: {kind}, where every line is {what}")
    if not lines:
        raise ValueError(f"{path} is empty, where every line is {what}")
    return lines


def read_scored_sentences(path: Path, split: str | None = None) -> list[str]:
    """All captions of a file in its order: of JSON lines (.jsonl) those of every picture, or of `split`; of any other
    file its lines. Raises ValueError like `read_captions` and `read_lines`."""
    if path.suffix != ".jsonl":
        return read_lines(path)
    sentences = [text for line in read_captions(path, split) for text in line.captions]
    if not sentences:
        raise ValueError(f"{path} has no caption" + (f" in split {split!r}" if split else ""))
    return sentences


def captioned_photographs(folder: Path, lines: Iterable[CaptionLine]) -> dict[str, Path]:
    """Name -> file of the captioned pictures in a folder. Raises ValueError, which names a missing one."""
    photographs = {line.image: folder / line.image for line in lines}
    missing = [name for name, file in photographs.items() if not file.is_file()]
    if missing:
        advice = f": it is in {folder.parent}" if (folder.parent / missing[0]).is_file() else ""
        raise ValueError(
            f"{folder} lacks {len(missing)} of {len(photographs)} captioned pictures, as {missing[0]}{advice}"
        )
    return photographs


def _lines(path: Path) -> list[str]:
    """The lines, which only line feeds end; the last one needs none. Raises ValueError for one that is not UTF-8."""
    lines = list[str]()
    for number, line in enumerate(path.read_bytes().removeprefix(codecs.BOM_UTF8).split(b"\n"), 1):
        try:
            lines.append(line.decode("utf-8"))
        except UnicodeDecodeError as fault:
            raise ValueError(f"{path}:{number}: is not UTF-8 text") from fault
    return lines[:-1] if not lines[-1] else lines
