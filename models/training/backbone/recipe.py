"""How a backbone is tuned on captioned photographs: the recipe, and the views that follow from it step by step."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, count, islice
from pathlib import Path

import numpy as np
import PIL.Image
import torch
from jaxtyping import UInt8
from torch import Tensor

from models.datasets.captioned_features import CaptionedFeatures
from models.datasets.captions import CaptionLine
from models.training.detector.augment import random_view
from models.training.detector.pseudo_labels import Lesson

NO_BOXES = Lesson(np.zeros((0, 4), np.float32), np.zeros(0, np.int64), np.zeros(0, np.float32))


@dataclass(frozen=True, kw_only=True)
class TuningRecipe:
    """How to tune; the same recipe, photographs and seed give the same backbone."""

    matching: str = "scan-t2i-avg-flickr8k"
    """The recipe of the matching model whose losses the backbone learns from; its sizes and drop-outs."""
    backbone: str = "mobilenet-v2"
    side: int = 224
    """Pixels a side that every view is stretched to."""
    batch: int = 64
    lead_steps: int = 500
    """The encoders alone first, on whole pictures as they are: a backbone learns nothing good from random ones."""
    lead_rate: float = 1e-3
    epochs: int = 4
    """Each shows every photograph once, with one of its captions."""
    rate: float = 3e-4
    """Of the backbone and of the encoders; up in a seventh of the steps, then down."""
    weight_decay: float = 1e-3
    clip: float = 2.0
    frozen_layers: int = 5
    """The first ones, whose maps are large and whose edges and colours need no tuning."""
    least_crop: float = 0.65
    """Of a photograph's sides, that a view shows."""
    save_every: int = 25
    seed: int = 0


@dataclass(frozen=True)
class Batch:
    """What one step learns from."""

    rows: np.ndarray
    """[K] numbers of the photographs."""
    pixels: UInt8[Tensor, "K 3 H W"]
    sentences: list[str]


def batches(recipe: TuningRecipe, folder: Path, lines: Sequence[CaptionLine], first: int) -> Iterator[Batch]:
    """The batches from step `first` on, the next one made while one is learnt."""
    plan = list(islice(_plan(recipe, lines), first, None))
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(_batch, recipe, folder, lines, first, *plan[0]) if plan else None
        for ahead in range(1, len(plan) + 1):
            assert coming is not None
            batch = coming.result()
            if ahead < len(plan):
                coming = pool.submit(_batch, recipe, folder, lines, first + ahead, *plan[ahead])
            yield batch


def steps_an_epoch(recipe: TuningRecipe, lines: Sequence[CaptionLine]) -> int:
    """How many batches show every photograph once."""
    return max(1, len(lines) // recipe.batch)


def _plan(recipe: TuningRecipe, lines: Sequence[CaptionLine]) -> Iterator[tuple[np.ndarray, list[str]]]:
    """Photographs and sentences of every step: another caption of each photograph in each epoch, while they last."""
    nothing = np.zeros((len(lines), 1, 1), np.float32)
    captioned = CaptionedFeatures.from_arrays(nothing, nothing[:, :, 0] == 0, [line.captions for line in lines], "")
    passes = (captioned.batches(recipe.batch, recipe.seed + turn) for turn in count())
    return islice(chain.from_iterable(passes), recipe.epochs * steps_an_epoch(recipe, lines))


def _batch(
    recipe: TuningRecipe, folder: Path, lines: Sequence[CaptionLine], step: int, rows: np.ndarray, sentences: list[str]
) -> Batch:
    random = np.random.default_rng((recipe.seed, step))
    views = []
    for row in rows:
        with PIL.Image.open(folder / lines[row].image) as photograph:
            size = (recipe.side, recipe.side)
            views.append(random_view(photograph.convert("RGB"), NO_BOXES, size, recipe.least_crop, random).pixels)
    return Batch(rows, torch.stack(views), sentences)
