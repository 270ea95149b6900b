"""The photographs of every step of a training on captioned photographs, determined by the recipe and the step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count, islice

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from models.batches import tiles
from models.datasets.captioned_features import CaptionedFeatures
from models.datasets.captions import CaptionedPhotographs, CaptionLine
from models.datasets.photographs import open_upright
from models.extractors.resize import stack_resized
from models.training.backbone.recipe import PhotographRecipe
from models.training.detector.augment import augment
from models.training.detector.pseudo_labels import PseudoLabels
from models.training.made_ahead import made_ahead

NUM_VALIDATED = 500  # photographs
PHOTOGRAPHS_AT_ONCE = 32  # in one pass without gradients
NO_BOXES = PseudoLabels(np.zeros((0, 4), np.float32), np.zeros(0, np.int64), np.zeros(0, np.float32))


@dataclass(frozen=True)
class PhotographBatch:
    """K augmented photographs and a caption of each."""

    numbers: np.ndarray
    """[K], indices of the photographs."""
    pixels: UInt8[Tensor, "K 3 H W"]
    sentences: list[str]


@dataclass(frozen=True)
class PhotographBatches:
    """The batches of a training, and its validation photographs."""

    recipe: PhotographRecipe
    photographs: CaptionedPhotographs

    @property
    def validated(self) -> Sequence[CaptionLine]:
        """The first photographs of dev."""
        return self.photographs.dev[:NUM_VALIDATED]

    @property
    def validated_captions(self) -> list[str]:
        """All captions of the validation photographs."""
        return [text for line in self.validated for text in line.captions]

    @property
    def steps_per_epoch(self) -> int:
        """The number of batches that show every photograph once."""
        return max(1, len(self.photographs.train) // self.recipe.batch)

    @property
    def total_steps(self) -> int:
        """The number of all batches."""
        return self.recipe.epochs * self.steps_per_epoch

    def after(self, done: int) -> Iterator[PhotographBatch]:
        """The batches after the first `done`; a thread prepares the next one."""
        plan = list(self._plan())
        return made_ahead(lambda step: self._make(step, *plan[step]), range(done, len(plan)))

    def _plan(self) -> Iterator[tuple[np.ndarray, list[str]]]:
        """Photographs and sentences of every step, with another caption of each photograph in each epoch, as long as
        there are any."""
        captions = [line.captions for line in self.photographs.train]
        nothing = np.zeros((len(captions), 1, 1), np.float32)
        captioned = CaptionedFeatures.from_arrays(nothing, nothing[:, :, 0] == 0, captions, "")
        passes = (captioned.batches(self.recipe.batch, self.recipe.seed, turn) for turn in count())
        return islice(chain.from_iterable(passes), self.total_steps)

    def _make(self, step: int, numbers: np.ndarray, sentences: list[str]) -> PhotographBatch:
        recipe, random = self.recipe, np.random.default_rng((self.recipe.seed, step))
        pixels = []
        for number in numbers:
            photograph = open_upright(self.photographs.folder / self.photographs.train[number].image)
            crop = augment(photograph, NO_BOXES, (recipe.side, recipe.side), recipe.least_crop, random)
            pixels.append(crop.pixels)
        return PhotographBatch(numbers, torch.stack(pixels), sentences)

    def unchanged(self, lines: Sequence[CaptionLine]) -> Iterator[UInt8[Tensor, "K 3 H W"]]:
        """The upright photographs of lines, each stretched to a square, in batches.

        Raises UnreadablePhotograph for a file that is not a whole picture.
        """
        for tile in tiles(len(lines), PHOTOGRAPHS_AT_ONCE):
            opened = [open_upright(self.photographs.folder / line.image) for line in lines[tile]]
            yield stack_resized(opened, (self.recipe.side, self.recipe.side))
