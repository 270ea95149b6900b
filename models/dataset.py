"""Captioned pictures as arrays: region features (memory-mapped) beside the captions of each picture."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from models.rows import Regions


@dataclass(frozen=True)
class CaptionLine:
    """One line of a captions file: a picture's path relative to its folder, its sentences, its split."""

    image: str
    captions: tuple[str, ...]
    split: str | None = None


def read_captions(path: Path, split: str | None = None) -> list[CaptionLine]:
    """Lines `{"image": .., "captions": [..], "split": ..}`, of one split when asked; ValueError names a bad line."""
    lines = []
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            stored = json.loads(text)
            line = CaptionLine(stored["image"], tuple(stored["captions"]), stored.get("split"))
        except (ValueError, KeyError, TypeError) as problem:
            raise ValueError(f'{path}:{number}: expected {{"image": "...", "captions": ["..."]}}') from problem
        if split is None or line.split == split:
            lines.append(line)
    if not lines:
        raise ValueError(f"{path} has no picture" + (f" in split {split!r}" if split else ""))
    return lines


@dataclass(frozen=True)
class CaptionedFeatures:
    """N pictures' region features [N R F] (any float type, memory-mapped or not), their mask and captions."""

    features: np.ndarray
    mask: np.ndarray
    captions: Sequence[Sequence[str]]
    extractor_digest: str

    def __post_init__(self) -> None:
        if not len(self.features) == len(self.mask) == len(self.captions):
            counts = len(self.features), len(self.mask), len(self.captions)
            raise ValueError(f"features, masks and caption lists differ in number: {counts}")

    def __len__(self) -> int:
        return len(self.features)

    def regions(self, rows: "slice | Sequence[int] | np.ndarray") -> Regions:
        """Raw features of some pictures, float32."""
        vectors = torch.from_numpy(np.asarray(self.features[rows], dtype=np.float32))
        return Regions(vectors, torch.from_numpy(np.array(self.mask[rows])))

    def sentences(self) -> tuple[list[str], Int64[Tensor, " Q"]]:
        """All captions in the pictures' order, and the picture of each."""
        image_of = [row for row, captions in enumerate(self.captions) for _ in captions]
        return [text for captions in self.captions for text in captions], torch.tensor(image_of)

    def take(self, rows: Sequence[int]) -> "CaptionedFeatures":
        """Some of the pictures, copied."""
        chosen = list(rows)
        captions = [self.captions[row] for row in chosen]
        return CaptionedFeatures(self.features[chosen], self.mask[chosen], captions, self.extractor_digest)

    def batches(self, size: int, seed: int) -> Iterator[tuple[np.ndarray, list[str]]]:
        """One epoch: every caption once, shuffled by `seed`, no picture twice in a batch (its other captions
        would count as wrong answers). The last, smaller batch of a pass is left out unless it is the only one."""
        random = np.random.default_rng(seed)
        turns = [random.permutation(len(captions)) for captions in self.captions]
        for turn in range(max(map(len, turns))):
            rows = random.permutation([row for row, order in enumerate(turns) if turn < len(order)])
            for start in range(0, max(len(rows) - size + 1, 1), size):
                chosen = rows[start : start + size]
                yield chosen, [self.captions[row][turns[row][turn]] for row in chosen]
