"""The recipe of a backbone's fine-tuning on captioned photographs, and the batch of each step that follows from it."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, count, islice
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from models.datasets.captioned_features import CaptionedFeatures
from models.datasets.captions import CaptionLine
from models.datasets.photographs import open_upright
from models.extractors.resize import stack_resized
from models.training.detector.augment import augment
from models.training.detector.pseudo_labels import PseudoLabels

NO_BOXES = PseudoLabels(np.zeros((0, 4), np.float32), np.zeros(0, np.int64), np.zeros(0, np.float32))


@dataclass(frozen=True, kw_only=True)
class BackboneRecipe:
    """The hyper-parameters of a fine-tuning; with the same photographs they give the same backbone."""

    matching: str = "scan-t2i-avg-flickr8k"
    """The recipe of the matcher from whose losses the backbone learns: its sizes and drop-outs."""
    backbone: str = "mobilenet-v2"
    side: int = 224
    """Pixels a side to which every picture is stretched."""
    batch: int = 64
    lead_steps: int = 500
    """Steps of the encoders alone, on unchanged pictures, before the backbone learns from them."""
    lead_rate: float = 1e-3
    epochs: int = 4
    """Passes over the photographs, each with one of its captions."""
    rate: float = 3e-4
    """Learning rate of backbone and encoders; up in a seventh of the steps, then down."""
    weight_decay: float = 1e-3
    clip: float = 2.0
    frozen_layers: int = 5
    """The first layers, which stay as they are: their maps are large, and edges and colours need no tuning."""
    least_crop: float = 0.65
    """Share of a photograph's sides that a crop has at least."""
    save_every: int = 25
    seed: int = 0


@runtime_checkable
class PhotographRecipe(Protocol):
    """The part of a recipe that decides which photographs a step sees, and how."""

    @property
    def side(self) -> int: ...
    @property
    def batch(self) -> int: ...
    @property
    def epochs(self) -> int: ...
    @property
    def least_crop(self) -> float: ...
    @property
    def seed(self) -> int: ...


@dataclass(frozen=True)
class PhotographBatch:
    """K augmented photographs and a caption of each."""

    numbers: np.ndarray
    """[K], of the photographs."""
    pixels: UInt8[Tensor, "K 3 H W"]
    sentences: list[str]


def iter_photograph_batches(
    recipe: PhotographRecipe, folder: Path, lines: Sequence[CaptionLine], first: int
) -> Iterator[PhotographBatch]:
    """Batches from step `first` on; the next one is made in a thread meanwhile."""
    plan = list(islice(_plan(recipe, lines), first, None))
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(_make_batch, recipe, folder, lines, first, *plan[0]) if plan else None
        for ahead in range(1, len(plan) + 1):
            assert coming is not None
            batch = coming.result()
            if ahead < len(plan):
                coming = pool.submit(_make_batch, recipe, folder, lines, first + ahead, *plan[ahead])
            yield batch


def steps_per_epoch(recipe: PhotographRecipe, lines: Sequence[CaptionLine]) -> int:
    """The number of batches that show every photograph once."""
    return max(1, len(lines) // recipe.batch)


def _plan(recipe: PhotographRecipe, lines: Sequence[CaptionLine]) -> Iterator[tuple[np.ndarray, list[str]]]:
    """Photographs and sentences of every step: another caption of each photograph in each epoch, while they last."""
    nothing = np.zeros((len(lines), 1, 1), np.float32)
    captioned = CaptionedFeatures.from_arrays(nothing, nothing[:, :, 0] == 0, [line.captions for line in lines], "")
    passes = (captioned.batches(recipe.batch, recipe.seed, turn) for turn in count())
    return islice(chain.from_iterable(passes), recipe.epochs * steps_per_epoch(recipe, lines))


def _make_batch(
    recipe: PhotographRecipe,
    folder: Path,
    lines: Sequence[CaptionLine],
    step: int,
    numbers: np.ndarray,
    sentences: list[str],
) -> PhotographBatch:
    random = np.random.default_rng((recipe.seed, step))
    size = (recipe.side, recipe.side)
    pixels = []
    for number in numbers:
        photograph = open_upright(folder / lines[number].image)
        pixels.append(augment(photograph, NO_BOXES, size, recipe.least_crop, random).pixels)
    return PhotographBatch(numbers, torch.stack(pixels), sentences)


def upright_pixels(folder: Path, lines: Sequence[CaptionLine], side: int) -> UInt8[Tensor, "K 3 H W"]:
    """The photographs of lines, upright, each stretched to a square of `side` pixels. Raises UnreadablePhotograph for a
    file that is no whole picture."""
    return stack_resized([open_upright(folder / line.image) for line in lines], (side, side))
