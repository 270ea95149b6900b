"""Sizes of a benchmark, and random models, pictures and sentences; the time of a score does not depend on values."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int64
from torch import Tensor
from torch.nn.functional import normalize

from models.batches import Regions, Words
from models.rerankers.base import Reranker
from models.rerankers.encoders import EncoderConfig
from models.rerankers.registry import build

SHORTEST, LONGEST = 8, 20
MEAN, SPREAD = 12.5, 3.0  # words of a caption, <start> and <end> among them


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes of one batch of matching pairs."""

    pairs: int = 128
    regions: int = 36
    words: int = 14
    width: int = 1024


def random_reranker(name: str, width: int, **options: Any) -> Reranker[Any]:
    """A model with random weights for features and vectors of `width` numbers."""
    torch.manual_seed(0)
    return build(name, EncoderConfig(num_words=2, word_dim=2, feature_dim=width, width=width), options).eval()


def random_regions(num: int, num_regions: int, width: int) -> Regions:
    """Regions with unit vectors, none of them padding."""
    generator = torch.Generator().manual_seed(1)
    vectors = normalize(torch.randn(num, num_regions, width, generator=generator), dim=2)
    return Regions(vectors, torch.ones(num, num_regions, dtype=torch.bool))


def caption_lengths(num: int) -> Int64[Tensor, " Q"]:
    """Lengths like those of captions: normal, 8 to 20 words, 12.5 on average."""
    drawn = MEAN + SPREAD * torch.randn(num, generator=torch.Generator().manual_seed(2))
    return drawn.round().clamp(SHORTEST, LONGEST).long()


def random_words(lengths: Int64[Tensor, " Q"], width: int) -> Words:
    """Sentences of these lengths with unit vectors, zeros where padded."""
    mask = torch.arange(int(lengths.max())) < lengths[:, None]
    vectors = torch.randn(*mask.shape, width, generator=torch.Generator().manual_seed(3))
    return Words(normalize(vectors, dim=2).masked_fill(~mask.unsqueeze(2), 0), mask)
