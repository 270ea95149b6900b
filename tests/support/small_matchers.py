"""Matchers with random weights in folders, as a user's own trainings leave them."""

from dataclasses import replace
from pathlib import Path

import torch

from models.batches import Regions
from models.matching.calibration import Calibration
from models.matching.checkpoint import new_matcher, save_matcher
from models.matching.encoded import EncodedImages, EncodedTexts
from models.matching.hubness import HubnessConfig
from models.matching.hubness_banks import HubnessBanks, VectorBank
from models.matching.log_odds import LogOddsModel
from models.matching.matcher import Matcher
from models.matching.single_matcher import SingleMatcher
from models.matching.stage_one import StageOneConfig
from models.rerankers.encoders import EncoderConfig
from models.text.vocabulary import SPECIALS, Vocabulary
from tests.support.fakes import COLOURS, D

SENTENCES = ["red", "a blue thing", "green green black"]
LOG_ODDS = LogOddsModel(2.0, -1.0)
PLAIN = Calibration(text=LOG_ODDS, image=LOG_ODDS)


def small_matcher(
    name: str,
    seed: int = 1,
    *,
    feature_dim: int = D,
    extractor: str = "fake-extractor",
    words: tuple[str, ...] = (),
    unit_regions: bool | None = None,
) -> SingleMatcher:
    """A matcher that knows `words`, or the colours."""
    torch.manual_seed(seed)
    vocabulary = Vocabulary((*SPECIALS, *(words or COLOURS)))
    sizes = EncoderConfig(num_words=len(vocabulary.words), feature_dim=feature_dim, word_dim=6, width=8)
    encoders = replace(sizes, unit_regions=unit_regions)
    return new_matcher(name, encoders, StageOneConfig(width=8, embed_dim=4), vocabulary, extractor).eval()


def small_pictures(count: int = 5) -> Regions:
    """Pictures of 2 to 4 regions with random features, for a small matcher."""
    generator = torch.Generator().manual_seed(2)
    mask = torch.arange(4) < (torch.arange(count) % 3 + 2)[:, None]
    return Regions(torch.randn(count, 4, D, generator=generator), mask)


def encode_small(matcher: Matcher) -> tuple[EncodedImages, EncodedTexts]:
    """The small pictures and SENTENCES, encoded."""
    return matcher.encode_regions(small_pictures())[0], matcher.encode_sentences(SENTENCES)[0]


def fused(name: str, weight: float = 0.8, hubness: HubnessConfig | None = None, seed: int = 1) -> SingleMatcher:
    """A matcher that has stage one's cosine in its score, with that weight."""
    matcher = small_matcher(name, seed)
    generator = torch.Generator().manual_seed(4)
    widths = matcher.word_dim, matcher.pooled.config.region_width
    banks = HubnessBanks(*(VectorBank.quantise(torch.randn(5, 1, width, generator=generator)) for width in widths))
    return matcher.with_calibration(replace(PLAIN, hubness=hubness, cosine_weight=weight), banks)


def fused_but_for_short_questions(name: str, short_question: int) -> SingleMatcher:
    """A fused matcher with a hubness correction, in which questions of up to so many words have their own scores."""
    all_fused = fused(name, hubness=HubnessConfig(image_weight=0.4, text_weight=0.3, neighbours=2))
    assert all_fused.calibration is not None
    assert all_fused.hubness is not None
    own = replace(all_fused.calibration, short_question=short_question, short_summand=-0.7)
    return all_fused.with_calibration(own, all_fused.hubness.banks)


def small_weights(
    folder: Path, name: str, seed: int = 1, *, feature_dim: int = D, extractor: str = "fake-extractor"
) -> Path:
    """A folder of such weights."""
    save_matcher(small_matcher(name, seed, feature_dim=feature_dim, extractor=extractor), folder)
    return folder
