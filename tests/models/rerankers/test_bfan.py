"""BFAN against the authors' numbers, against its formulas in plain loops, and where those divide 0 by 0."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import normalize

from models.batches import Regions, Words
from models.rerankers.bfan import TIE_TOLERANCE, Bfan, BfanConfig, focal_attention
from models.rerankers.encoders import EncoderConfig

ENCODERS = EncoderConfig(num_words=5, feature_dim=8, width=16)


def mean_relevance(query: np.ndarray, context: np.ndarray, config: BfanConfig) -> float:
    """Mean relevance of one direction's queries as published, every pair of fragments compared, a number at a time."""
    return sum(map(sum, cosine_terms(query, context, config))) / len(query)


def cosine_terms(query: np.ndarray, context: np.ndarray, config: BfanConfig) -> list[list[float]]:
    """Of every query, the term of everything in the context in its cosine with what it attends to."""
    alike = [[float(c @ q) for q in query] for c in context]
    if config.similarity == "cosine":
        sizes = [[float(np.linalg.norm(c) * np.linalg.norm(q)) for q in query] for c in context]
        alike = [[x / s for x, s in zip(*rows, strict=True)] for rows in zip(alike, sizes, strict=True)]
    else:
        alike = [[x if x > 0 else 0.1 * x for x in row] for row in alike]
        added = 1e-8 if len(query) > 1 else 0.0  # which would set apart by more than the tolerance what is alike
        alike = [[x / (math.sqrt(sum(y * y for y in row)) + added) for x in row] for row in alike]
    terms = []
    for j, q in enumerate(query):
        parts = [math.exp(config.lambda_softmax * row[j]) for row in alike]
        p = [part / sum(parts) for part in parts]
        worth = [math.sqrt(x) if config.focal == "prob" else 1.0 for x in p]
        gains = [sum((x - y) * g for y, g in zip(p, worth, strict=True)) for x in p]
        kept = [x if gain > 0 else 0.0 for x, gain in zip(p, gains, strict=True)]
        mean = sum(x * g for x, g in zip(p, worth, strict=True)) / sum(worth)
        kept = p if max(p) <= mean * (1 + TIE_TOLERANCE) else kept  # nothing stands out: all are kept
        attended = sum(w * c for w, c in zip(kept, context, strict=True))
        lengths = float(np.linalg.norm(q) * np.linalg.norm(attended))
        terms.append([w * float(q @ c) / lengths for w, c in zip(kept, context, strict=True)])
    return terms


def score(config: BfanConfig, v: np.ndarray, e: np.ndarray, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Scores [Q K] of pictures v [K R D] and sentences e [Q W D] without padding."""
    bfan = Bfan(config, ENCODERS)
    images = bfan.precompute(Regions(torch.tensor(v).to(dtype), torch.ones(v.shape[:2], dtype=torch.bool)))
    return bfan.score(images, Words(torch.tensor(e).to(dtype), torch.ones(e.shape[:2], dtype=torch.bool)))


configs = st.builds(
    BfanConfig,
    focal=st.sampled_from(["prob", "equal"]),
    similarity=st.sampled_from(["clipped_l2norm", "cosine"]),
    lambda_softmax=st.floats(0.5, 30),
)


@given(configs, st.integers(1, 4), st.integers(1, 5), st.integers(0, 2**32 - 1), st.booleans())
def test_equals_the_formula_in_plain_loops(config: BfanConfig, words: int, regions: int, seed: int, unit: bool) -> None:
    random = np.random.default_rng(seed)
    v, e = random.normal(size=(2, regions, 6)), random.normal(size=(3, words, 6))
    if unit:
        v, e = (x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (v, e))
    scores = score(config, v, e)
    for q in range(3):
        for k in range(2):
            expected = mean_relevance(e[q], v[k], config) + mean_relevance(v[k], e[q], config)
            assert scores[q, k].item() == pytest.approx(expected, rel=1e-10, abs=1e-10)


@given(configs, st.integers(1, 4), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_shares_equal_the_formula_in_plain_loops(config: BfanConfig, words: int, regions: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    v, e = random.normal(size=(1, regions, 6)), random.normal(size=(1, words, 6))
    bfan = Bfan(config, ENCODERS)
    images = bfan.precompute(Regions(torch.tensor(v), torch.ones(v.shape[:2], dtype=torch.bool)))
    shares = bfan.explain(images, Words(torch.tensor(e), torch.ones(e.shape[:2], dtype=torch.bool))).shares
    assert shares is not None
    of_words, of_regions = cosine_terms(e[0], v[0], config), cosine_terms(v[0], e[0], config)
    for w in range(words):
        for r in range(regions):
            expected = of_words[w][r] / words + of_regions[r][w] / regions
            assert shares[0, 0, w, r].item() == pytest.approx(expected, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("num", [1, 2, 3, 10, 36])
@pytest.mark.parametrize("focal", ["prob", "equal"])
def test_equal_fragments_are_all_attended(focal: str, num: int, dtype: torch.dtype) -> None:
    """The published code answers NaN, or not, as rounding has it; the mean of equal vectors is what they are."""
    random = np.random.default_rng(num)
    region, word = random.normal(size=(1, num, 6)), random.normal(size=6)
    region[:] = region[:, :1]
    expected = 2 * region[0, 0] @ word / (np.linalg.norm(region[0, 0]) * np.linalg.norm(word))
    found = score(BfanConfig(focal=focal), region, np.tile(word, (1, num, 1)), dtype)  # type: ignore[arg-type]
    assert found.item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("num", [1, 2, 10, 36])
@pytest.mark.parametrize("focal", ["prob", "equal"])
def test_every_word_attends_all_equal_regions_of_a_blank_picture(focal: str, num: int) -> None:
    config = BfanConfig(focal=focal)  # type: ignore[arg-type]
    random = np.random.default_rng(num)
    region, words = random.normal(size=6), random.normal(size=(4, 6))
    blank = np.tile(region, (num, 1))
    own = np.mean([word @ region / (np.linalg.norm(word) * np.linalg.norm(region)) for word in words])
    expected = own + mean_relevance(blank, words, config)
    assert score(config, blank[None], words[None]).item() == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("side", ["regions", "words"])
@pytest.mark.parametrize("focal", ["prob", "equal"])
def test_beside_identical_fragments_float32_keeps_everything(focal: str, side: str, seed: int) -> None:
    """Identical queries are alike to every fragment of the other side up to rounding, which must not choose."""
    random = np.random.default_rng(seed)
    same, others = random.random(size=512), random.random(size=(12, 512))  # none points away from another
    same, others = same / np.linalg.norm(same), others / np.linalg.norm(others, axis=1, keepdims=True)
    blank = np.tile(same, (36, 1))
    mean = others.mean(0)
    expected = (others @ same).mean() + mean @ same / np.linalg.norm(mean)
    v, e = (blank, others) if side == "regions" else (others, blank)
    found = score(BfanConfig(focal=focal), v[None], e[None], torch.float32)  # type: ignore[arg-type]
    assert found.item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("side", ["regions", "words"])
@pytest.mark.parametrize("focal", ["prob", "equal"])
def test_beside_a_lone_fragment_rounding_decides_nothing(focal: str, side: str) -> None:
    """Among padding, too; of 8000 pairs, some have inner products of a few thousandths."""
    generator = torch.Generator().manual_seed(0)
    lone = normalize(torch.randn(80, 3, 384, generator=generator), dim=2)
    others = normalize(torch.randn(100, 12, 384, generator=generator), dim=2)
    is_real = torch.tensor([False, True, False]).expand(80, 3)
    bfan = Bfan(BfanConfig(focal=focal), ENCODERS)  # type: ignore[arg-type]

    def scores(dtype: torch.dtype) -> torch.Tensor:
        own, other = (lone.to(dtype), is_real), (others.to(dtype), torch.ones(100, 12, dtype=torch.bool))
        regions, words = (own, other) if side == "regions" else (other, own)
        return bfan.score(bfan.precompute(Regions(*regions)), Words(*words))

    torch.testing.assert_close(scores(torch.float32).double(), scores(torch.float64), atol=1e-5, rtol=0)


@pytest.mark.parametrize("focal", ["prob", "equal"])
def test_weights_are_alike_up_to_the_tolerance(focal: str) -> None:
    mask = torch.tensor([True, True, True, False])
    for above, kept in ((0.0, 3), (0.5e-5, 3), (1.4e-5, 3), (1.6e-5, 1), (1e-3, 1)):
        weights = torch.tensor([1.0, 1.0, 1.0 + above, 9.0], dtype=torch.float64)
        found = focal_attention(weights, mask, focal, dim=0)  # type: ignore[arg-type]
        assert int((found > 0).sum()) == kept, above  # above the mean of the three by two thirds of `above`
        assert found[3] == 0


@pytest.mark.realdata
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-6)])
@pytest.mark.parametrize("focal", ["prob", "equal"])
def test_equals_the_authors_code(parity_dir: Path, focal: str, dtype: torch.dtype, tolerance: float) -> None:
    stored = np.load(parity_dir / "scan_bfan_scores.npz")
    vectors, words, lengths = stored["images"], stored["captions"], stored["lengths"]
    bfan = Bfan(BfanConfig(focal=focal), ENCODERS)  # type: ignore[arg-type]
    mask = torch.arange(words.shape[1]) < torch.tensor(lengths)[:, None]
    images = bfan.precompute(Regions(torch.tensor(vectors).to(dtype), torch.ones(vectors.shape[:2], dtype=torch.bool)))
    expected = torch.tensor(stored[f"bfan/{focal}"]).T
    error = (bfan.score(images, Words(torch.tensor(words).to(dtype), mask)) - expected).abs()
    # No fragment here is within 1e-6 of its threshold (relative), so float32 needs no exception.
    assert (error <= tolerance * expected.abs().clamp_min(1)).all()
