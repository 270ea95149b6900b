"""The part of a training step that every form shares: encoders forward and backward, and the optimizer."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from models.batches import Regions, Tokens
from models.rerankers.encoders import EncoderConfig, RegionEncoder, SentenceEncoder

# Flickr30K as SCAN has it: numbers of a region's feature, words of the vocabulary.
FEATURE_DIM, NUM_WORDS, WORD_DIM = 2048, 8481, 300


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Of one batch of matching pairs."""

    pairs: int = 128
    regions: int = 36
    words: int = 14
    width: int = 1024


def encoders_step(sizes: Sizes) -> Callable[[], None]:
    """One step of both encoders, given gradients of what they encode."""
    config = EncoderConfig(num_words=NUM_WORDS, feature_dim=FEATURE_DIM, word_dim=WORD_DIM, width=sizes.width)
    encoders = torch.nn.ModuleList([RegionEncoder(config), SentenceEncoder(config)])
    optimizer = torch.optim.Adam(encoders.parameters())
    features = torch.randn(sizes.pairs, sizes.regions, FEATURE_DIM)
    regions = Regions(features, torch.ones(features.shape[:2], dtype=torch.bool))
    ids = torch.randint(NUM_WORDS, (sizes.pairs, sizes.words))
    tokens = Tokens(ids, torch.ones_like(ids, dtype=torch.bool))

    def step() -> None:
        optimizer.zero_grad()
        encoded = [encoder(rows).vectors for encoder, rows in zip(encoders, (regions, tokens), strict=True)]
        torch.autograd.backward(encoded, [torch.ones_like(vectors) for vectors in encoded])
        optimizer.step()

    return step
