"""Embeddings of pictures that nobody took and of sentences that nobody said, which lie as real ones do.

What an approximate search finds depends on how the vectors lie: on uniform directions none would find anything, on
well-parted clusters any would find all. Here they lie as the embeddings of `bfan-equal` do, of 4 000 photographs of
Flickr8k and of their captions: `python -m benchmarks.stage_one_spectrum` measures those, and compares what an index
finds among them with what it finds among as many drawn ones.

Subjects are a tree: each has eight narrower ones, so that however many pictures there are, some lie near together.
"""

import math
from dataclasses import dataclass

import numpy as np

from index.views.shortlist import Floats

BRANCHES, LEVELS = 8, 5  # of the tree of subjects; pictures and sentences lie around the centre of theirs
OF_LEVEL = 0.15  # share of the variance that lies between the subjects of one level
MEANS_COSINE = 0.54  # of the mean picture and the mean sentence


@dataclass(frozen=True)
class Spread:
    """The length of a kind's mean vector, and its variances: the n-th largest falls as n^-power e^(-n / decay)."""

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
SENTENCE_SPREAD = Spread(mean=0.27, power=0.40, decay=135)  # on the axes of pictures


def drawn_pictures(count: int, dim: int, seed: int) -> Floats:
    """[count, dim] unit embeddings of pictures."""
    return _drawn(count, PICTURE_SPREAD, _common(dim)[0], seed)


def drawn_sentences(count: int, dim: int, seed: int) -> Floats:
    """[count, dim] unit embeddings of sentences about the subjects of drawn pictures."""
    towards, across = _common(dim)
    return _drawn(count, SENTENCE_SPREAD, MEANS_COSINE * towards + math.sqrt(1 - MEANS_COSINE**2) * across, seed)


def _common(dim: int) -> tuple[Floats, Floats]:
    """The direction [dim] of the mean picture, and one at right angles to it."""
    towards, across = np.random.default_rng(1).standard_normal((2, dim), np.float32)
    towards /= np.linalg.norm(towards)
    across -= across @ towards * towards
    return towards, across / np.linalg.norm(across)


def _drawn(count: int, spread: Spread, direction: Floats, seed: int) -> Floats:
    dim = len(direction)
    generator, centres = np.random.default_rng(seed), np.random.default_rng(0)
    rows = generator.standard_normal((count, dim), np.float32)
    rows *= np.float32((1 - LEVELS * OF_LEVEL) ** 0.5)
    place = generator.random(count)  # in the tree, from its first branch to its last
    for level in range(1, LEVELS + 1):
        subjects = centres.standard_normal((BRANCHES**level, dim), np.float32) * np.float32(OF_LEVEL**0.5)
        rows += subjects[(place * len(subjects)).astype(np.int64)]
    rows *= spread.deviations(dim)
    rows += np.float32(spread.mean) * direction
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows
