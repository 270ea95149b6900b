"""The report against a slow definition of two-stage search."""

import numpy as np
import pytest
import torch

from models.checkpoint import new_matcher
from models.dataset import CaptionedFeatures
from models.encoders import EncoderConfig
from models.evaluate import evaluate, shortlisted, two_stage
from models.matcher import Matcher
from models.metrics import Recalls
from models.pooled import PooledConfig
from models.vocabulary import SPECIALS, Vocabulary

WORDS = ("a", "dog", "runs", "on", "grass", "red", "blue", "sky")


def matcher() -> Matcher:
    torch.manual_seed(3)
    encoders = EncoderConfig(num_words=12, feature_dim=6, word_dim=5, width=8)
    vocabulary = Vocabulary((*SPECIALS, *WORDS))
    return new_matcher("scan-t2i-avg", encoders, PooledConfig(width=8, embed_dim=4), vocabulary, "x").eval()


def pictures(num: int) -> CaptionedFeatures:
    random = np.random.default_rng(5)
    features = random.normal(size=(num, 3, 6)).astype(np.float16)
    captions = [[" ".join(random.choice(WORDS, 4)) for _ in range(2)] for _ in range(num)]
    return CaptionedFeatures.whole(features, np.ones((num, 3), bool), captions, "x")


def test_a_shortlist_keeps_the_best_of_stage_one_alone() -> None:
    scores, stage_one = torch.arange(8.0).view(2, 4), torch.tensor([[4.0, 3, 2, 1], [1, 2, 3, 4]])
    kept = shortlisted(scores, stage_one, 2)
    assert kept.tolist() == [[0, 1, -np.inf, -np.inf], [-np.inf, -np.inf, 6, 7]]


def test_two_stages_equal_a_search_one_query_at_a_time() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(20, 10, generator=generator)
    stage_one = scores + torch.randn(20, 10, generator=generator)
    image_of = torch.arange(10).repeat_interleave(2)
    found, held = two_stage(scores, stage_one, image_of, k=3)
    positions, within = [], 0
    for q in range(20):
        shortlist = sorted(range(10), key=lambda k: -stage_one[q, k].item())[:3]
        within += image_of[q].item() in shortlist
        order = sorted(shortlist, key=lambda k: -scores[q, k].item())
        positions.append(order.index(image_of[q].item()) if image_of[q].item() in order else 9)
    assert held["text_to_image"] == pytest.approx(100 * within / 20)
    assert found["text_to_image"] == Recalls.of(np.array(positions)).as_dict()


def test_a_shortlist_of_everything_changes_nothing() -> None:
    report = evaluate(matcher(), pictures(12), shortlists=(5, 12, 50))
    assert list(report["two_stage"]) == ["5", "12"]
    assert report["shortlist_recall"]["12"]["text_to_image"] == 100
    assert report["two_stage"]["12"]["text_to_image"] == report["exhaustive"]["text_to_image"]
    assert (report["images"], report["captions"]) == (12, 24)
