"""Matchers with random weights in folders, as a user's own trainings leave them."""

from pathlib import Path

import torch

from models.matching.checkpoint import new_matcher, save_matcher
from models.matching.matcher import SingleMatcher
from models.matching.stage_one import StageOneConfig
from models.rerankers.encoders import EncoderConfig
from models.text.vocabulary import SPECIALS, Vocabulary
from tests.support.fakes import COLOURS, D


def small_matcher(
    name: str, seed: int = 1, *, feature_dim: int = D, extractor: str = "fake-extractor", words: tuple[str, ...] = ()
) -> SingleMatcher:
    """A matcher that knows `words`, or the colours."""
    torch.manual_seed(seed)
    vocabulary = Vocabulary((*SPECIALS, *(words or COLOURS)))
    encoders = EncoderConfig(num_words=len(vocabulary.words), feature_dim=feature_dim, word_dim=6, width=8)
    return new_matcher(name, encoders, StageOneConfig(width=8, embed_dim=4), vocabulary, extractor).eval()


def small_weights(
    folder: Path, name: str, seed: int = 1, *, feature_dim: int = D, extractor: str = "fake-extractor"
) -> Path:
    """A folder of such weights."""
    save_matcher(small_matcher(name, seed, feature_dim=feature_dim, extractor=extractor), folder)
    return folder
