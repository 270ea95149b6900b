"""Random embeddings of pictures and sentences, distributed like real ones.

The recall of an approximate search depends on the distribution of the vectors: with uniform directions none would find
anything, with well-separated clusters any would find everything. These follow the distribution of `bfan-equal`'s
embeddings of 4 000 photographs of Flickr8k and of their captions. `python -m benchmarks.stage_one_spectrum` measures
those, and compares an index's recall on them with that on as many random ones.

Subjects form a tree: each has eight narrower ones, so that some pictures are close together however many there are.
"""

import math
from dataclasses import dataclass

import numpy as np

from index.views.shortlist import Floats

BRANCHES, LEVELS = 8, 5  # of the tree of subjects; pictures and sentences lie around the centre of theirs
OF_LEVEL = 0.15  # share of the variance between the subjects of one level
MEANS_COSINE = 0.54  # cosine of the mean picture and the mean sentence


@dataclass(frozen=True)
class Spread:
    """The distribution of one kind of vectors: length of the mean, and variances, of which the n-th largest is
    proportional to n^-power e^(-n / decay)."""

    mean: float
    power: float
    decay: float

    def deviations(self, dim: int) -> Floats:
        """[dim] standard deviations, so that vectors with the mean added have length 1 on average."""
        axes = np.arange(1, dim + 1)
        variances = axes**-self.power * np.exp(-axes / self.decay)
        deviations: Floats = np.sqrt((1 - self.mean**2) * variances / variances.sum()).astype(np.float32)
        return deviations


PICTURE_SPREAD = Spread(mean=0.43, power=0.64, decay=94)
SENTENCE_SPREAD = Spread(mean=0.27, power=0.40, decay=135)  # along the axes of pictures


def drawn_pictures(count: int, dim: int, seed: int) -> Floats:
    """[count, dim] unit embeddings of pictures."""
    return _drawn(count, PICTURE_SPREAD, _common(dim)[0], seed)


def drawn_sentences(count: int, dim: int, seed: int) -> Floats:
    """[count, dim] unit embeddings of sentences about the subjects of drawn pictures."""
    towards, across = _common(dim)
    return _drawn(count, SENTENCE_SPREAD, MEANS_COSINE * towards + math.sqrt(1 - MEANS_COSINE**2) * across, seed)


def _common(dim: int) -> tuple[Floats, Floats]:
    """The direction [dim] of the mean picture, and an orthogonal one."""
    towards, across = np.random.default_rng(1).standard_normal((2, dim), np.float32)
    towards /= np.linalg.norm(towards)
    across -= across @ towards * towards
    return towards, across / np.linalg.norm(across)


def _drawn(count: int, spread: Spread, direction: Floats, seed: int) -> Floats:
    dim = len(direction)
    generator, centres = np.random.default_rng(seed), np.random.default_rng(0)
    rows = generator.standard_normal((count, dim), np.float32)
    rows *= np.float32((1 - LEVELS * OF_LEVEL) ** 0.5)
    place = generator.random(count)  # in the tree, from the first branch to the last
    for level in range(1, LEVELS + 1):
        subjects = centres.standard_normal((BRANCHES**level, dim), np.float32) * np.float32(OF_LEVEL**0.5)
        rows += subjects[(place * len(subjects)).astype(np.int64)]
    rows *= spread.deviations(dim)
    rows += np.float32(spread.mean) * direction
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows
