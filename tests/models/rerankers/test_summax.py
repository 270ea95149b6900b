"""Sum-Max against equations 9 and 10 of SCAN's paper in plain loops."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from models.batches import Regions, Words
from models.rerankers.encoders import EncoderConfig
from models.rerankers.summax import SumMax, SumMaxConfig

ENCODERS = EncoderConfig(num_words=5, feature_dim=8, width=16)


def encode(direction: str, v: np.ndarray, e: np.ndarray) -> tuple[SumMax, Regions, Words]:
    summax = SumMax(SumMaxConfig(direction=direction), ENCODERS)  # type: ignore[arg-type]
    images = summax.precompute(Regions(torch.tensor(v), torch.ones(v.shape[:2], dtype=torch.bool)))
    return summax, images, Words(torch.tensor(e), torch.ones(e.shape[:2], dtype=torch.bool))


@given(st.sampled_from(["t2i", "i2t"]), st.integers(1, 4), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_equals_the_formula_in_plain_loops(direction: str, words: int, regions: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    v, e = random.normal(size=(2, regions, 6)), random.normal(size=(3, words, 6))
    v, e = (x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (v, e))
    summax, images, texts = encode(direction, v, e)
    scores = summax.score(images, texts)
    for q in range(3):
        for k in range(2):
            queries, context = (e[q], v[k]) if direction == "t2i" else (v[k], e[q])
            expected = sum(max(float(x @ y) for y in context) for x in queries)
            assert scores[q, k].item() == pytest.approx(expected, rel=1e-10, abs=1e-10)


def test_every_regions_best_similarity_is_a_contribution_of_the_word_it_chose() -> None:
    # Three regions nearest to the first, second and second word; the third word is nobody's choice.
    v = np.array([[[1.0, 0.1], [0.1, 1.0], [-0.2, 0.9]]])
    e = np.array([[[1.0, 0.0], [0.0, 1.0], [-0.5, -0.5]]])
    summax, images, words = encode("i2t", v, e)
    explanation = summax.explain(images, words)
    assert explanation.attention is not None
    assert explanation.contributions is not None
    assert explanation.attention[0, 0].tolist() == [[1, 0, 0], [0, 1, 1], [0, 0, 0]]
    torch.testing.assert_close(explanation.contributions[0, 0], torch.tensor([1.0, 1.9, 0.0]).double())
    shares = torch.tensor([[1, 0, 0], [0, 1, 0.9], [0, 0, 0]]).double()
    torch.testing.assert_close(explanation.shares, shares[None, None])
