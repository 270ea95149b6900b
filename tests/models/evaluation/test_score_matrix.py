"""Score matrices of a folder of weights. Exactness is tested with the authors' numbers in test_convert.py."""

from pathlib import Path

import numpy as np
import pytest
import torch

from models.datasets.captioned_features import CaptionedFeatures
from models.evaluation import score_matrix
from models.evaluation.evaluate import score_all_pairs
from models.evaluation.score_matrix import encode_in_batches, score_all
from models.matching.checkpoint import load_matcher, new_matcher, save_matcher
from models.matching.ensemble import build_ensemble
from models.matching.single_matcher import SingleMatcher
from models.matching.stage_one import StageOneConfig
from models.rerankers.encoders import EncoderConfig
from models.text.vocabulary import SPECIALS, Vocabulary
from tests.support.small_matchers import fused, fused_but_for_short_questions

CAPTIONS = ["a dog runs on grass", "grass", "a dog", "dog on a dog on a dog", "runs", "a a a"]


def saved_matcher(folder: Path, name: str = "caan") -> SingleMatcher:
    """A matcher with random weights, in `folder` too."""
    torch.manual_seed(3)
    encoders = EncoderConfig(num_words=9, feature_dim=6, word_dim=5, width=8)
    vocabulary = Vocabulary((*SPECIALS, "a", "dog", "runs", "on", "grass"))
    save_matcher(new_matcher(name, encoders, StageOneConfig(width=8, embed_dim=4), vocabulary, "x"), folder)
    return load_matcher(folder)


@pytest.mark.parametrize("name", ["scan-t2i-lse", "caan", "camp", "sman"])
@torch.no_grad()
def test_every_pair_is_scored_once_where_it_belongs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_matrix, "ENCODING_BATCH", 2)
    matcher = saved_matcher(tmp_path / "w", name)
    features = np.random.default_rng(0).random((5, 3, 6), dtype=np.float32)
    data = CaptionedFeatures.from_arrays(features, np.arange(15).reshape(5, 3) < 14, [()] * 5, "x")
    progress: list[int] = []
    scores = score_all(matcher, data, CAPTIONS, progress.append)
    assert (scores.shape, scores.dtype) == ((5, 6), np.dtype(np.float64))
    images = matcher.encode_projected(matcher.reranker.project(data.regions(slice(5))))
    texts, _ = matcher.encode_sentences(CAPTIONS)
    np.testing.assert_allclose(scores, matcher.score(images, texts).T.numpy(), atol=1e-5)
    assert progress == [2, 4, 5]


@pytest.mark.parametrize("mean", [False, True])
def test_captions_are_asked_or_answers(mean: bool) -> None:
    first = fused_but_for_short_questions("scan-t2i-avg", 2)
    matcher = build_ensemble([first, fused("scan-i2t-avg")] if mean else [first])
    features = np.random.default_rng(0).standard_normal((5, 3, first.feature_dim)).astype(np.float32)
    data = CaptionedFeatures.from_arrays(features, np.ones((5, 3), bool), [["red"], ["a b c d"]] + [["blue"]] * 3, "x")
    sentences, _ = data.sentences()
    by_evaluation, _ = score_all_pairs(matcher, data)
    found = [score_all(matcher, data, sentences, asked=asked).T for asked in (True, False)]
    np.testing.assert_allclose(found[0], by_evaluation.of("text"), atol=2e-3)
    np.testing.assert_allclose(found[1], by_evaluation.of("image"), atol=2e-3)
    assert (abs(found[0] - found[1]).max(1) > 0.05).tolist() == [True, False, True, True, True]


def test_sentences_come_short_ones_first_and_without_padding_beyond_their_batch(tmp_path: Path) -> None:
    batches = list(encode_in_batches(saved_matcher(tmp_path), CAPTIONS, batch=2))
    assert [texts.mask.shape[1] for _, texts, _ in batches] == [3, 5, 9]
    assert sorted(place for chosen, _, _ in batches for place in chosen.tolist()) == list(range(6))
