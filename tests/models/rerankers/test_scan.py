"""SCAN against the authors' numbers and against its formulas in plain loops."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from models.batches import Regions, Words
from models.rerankers.encoders import EncoderConfig
from models.rerankers.scan import Scan, ScanConfig

ENCODERS = EncoderConfig(num_words=5, feature_dim=8, width=16)
NORMALISATIONS = ("softmax", "l2norm", "clipped_l2norm", "clipped", "no_norm")
POOLINGS = ("LogSumExp", "Mean", "Max", "Sum")


def attend(query: np.ndarray, context: np.ndarray, config: ScanConfig) -> list[float]:
    """Cosine of every query with the context it attends to: the published function, one number at a time."""
    cosines = []
    for q, weights in zip(query, attention(query, context, config), strict=True):
        attended = sum(w * c for w, c in zip(weights, context, strict=True))
        cosines.append(float(q @ attended) / max(float(np.linalg.norm(q) * np.linalg.norm(attended)), 1e-8))
    return cosines


def attention(query: np.ndarray, context: np.ndarray, config: ScanConfig) -> list[list[float]]:
    """The weight of everything in the context for every query, one number at a time."""
    raw = [[float(c @ q) for q in query] for c in context]
    if config.normalisation.startswith("clipped"):
        raw = [[x if x > 0 else 0.1 * x for x in row] for row in raw]
    if config.normalisation.endswith("l2norm"):
        raw = [[x / (math.sqrt(sum(y * y for y in row)) + 1e-8) for x in row] for row in raw]
    if config.normalisation == "softmax":
        raw = [[math.exp(x) / sum(math.exp(y) for y in row) for x in row] for row in raw]
    parts = [[math.exp(config.lambda_softmax * row[j]) for row in raw] for j in range(len(query))]
    return [[part / sum(row) for part in row] for row in parts]


def pool(relevance: list[float], config: ScanConfig) -> float:
    match config.pooling:
        case "LogSumExp":
            return math.log(sum(math.exp(config.lambda_lse * r) for r in relevance)) / config.lambda_lse
        case "Mean":
            return sum(relevance) / len(relevance)
        case "Max":
            return max(relevance)
        case "Sum":
            return sum(relevance)


configs = st.builds(
    ScanConfig,
    direction=st.sampled_from(["t2i", "i2t"]),
    normalisation=st.sampled_from(NORMALISATIONS),
    pooling=st.sampled_from(POOLINGS),
    lambda_softmax=st.floats(0.5, 20),
    lambda_lse=st.floats(0.5, 20),
)


@given(configs, st.integers(1, 4), st.integers(1, 5), st.integers(0, 2**32 - 1), st.booleans())
def test_equals_the_formula_in_plain_loops(config: ScanConfig, words: int, regions: int, seed: int, unit: bool) -> None:
    random = np.random.default_rng(seed)
    v, e = random.normal(size=(2, regions, 6)), random.normal(size=(3, words, 6))
    if unit:
        v, e = (x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (v, e))
    scan = Scan(config, ENCODERS)
    images = scan.precompute(Regions(torch.tensor(v), torch.ones(v.shape[:2], dtype=torch.bool)))
    scores = scan.score(images, Words(torch.tensor(e), torch.ones(e.shape[:2], dtype=torch.bool)))
    for q in range(3):
        for k in range(2):
            sides = (e[q], v[k]) if config.direction == "t2i" else (v[k], e[q])
            expected = pool(attend(*sides, config), config)
            assert scores[q, k].item() == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(configs, st.integers(1, 4), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_contributions_add_up_or_are_not_given(config: ScanConfig, words: int, regions: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    mask = torch.tensor(random.random((3, words + 1)) < 0.5) | (torch.arange(words + 1) == 0)
    real = torch.tensor(random.random((2, regions)) < 0.7) | (torch.arange(regions) == 0)
    e = Words(torch.tensor(random.normal(size=(3, words + 1, 6))), mask)
    scan = Scan(config, ENCODERS)
    images = scan.precompute(Regions(torch.tensor(random.normal(size=(2, regions, 6))), real))
    contributions = scan.explain(images, e).contributions
    if config.pooling in ("LogSumExp", "Max"):
        assert contributions is None
        return
    assert contributions is not None
    torch.testing.assert_close(contributions.sum(2), scan.score(images, e), atol=1e-10, rtol=1e-10)
    assert not contributions.masked_select(~mask[:, None].expand_as(contributions)).any()


@given(configs, st.integers(1, 4), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_a_share_is_a_weighted_product_over_both_lengths(
    config: ScanConfig, words: int, regions: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    v, e = random.normal(size=(1, regions, 6)), random.normal(size=(1, words, 6))
    scan = Scan(config, ENCODERS)
    images = scan.precompute(Regions(torch.tensor(v), torch.ones(v.shape[:2], dtype=torch.bool)))
    shares = scan.explain(images, Words(torch.tensor(e), torch.ones(e.shape[:2], dtype=torch.bool))).shares
    if config.pooling in ("LogSumExp", "Max"):
        assert shares is None
        return
    assert shares is not None
    query, context = (e[0], v[0]) if config.direction == "t2i" else (v[0], e[0])
    for j, weights in enumerate(attention(query, context, config)):
        attended = sum(w * c for w, c in zip(weights, context, strict=True))
        lengths = float(np.linalg.norm(query[j]) * np.linalg.norm(attended))
        for i, weight in enumerate(weights):
            expected = weight * float(query[j] @ context[i]) / lengths
            expected /= len(query) if config.pooling == "Mean" else 1
            found = shares[0, 0, j, i] if config.direction == "t2i" else shares[0, 0, i, j]
            assert found.item() == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.realdata
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("normalisation", NORMALISATIONS)
@pytest.mark.parametrize("direction", ["t2i", "i2t"])
def test_equals_the_authors_code(
    data_dir: Path, direction: str, normalisation: str, pooling: str, dtype: torch.dtype, tolerance: float
) -> None:
    stored = np.load(data_dir.parent / "parity" / "scan_bfan_scores.npz")
    softmax, lse = (9.0, 6.0) if direction == "t2i" else (4.0, 5.0)
    config = ScanConfig(
        direction=direction,  # type: ignore[arg-type]
        normalisation=normalisation,  # type: ignore[arg-type]
        pooling=pooling,  # type: ignore[arg-type]
        lambda_softmax=softmax,
        lambda_lse=lse,
    )
    vectors = torch.tensor(stored["images"]).to(dtype)
    words = torch.tensor(stored["captions"]).to(dtype)
    mask = torch.arange(words.shape[1]) < torch.tensor(stored["lengths"])[:, None]
    scan = Scan(config, ENCODERS)
    images = scan.precompute(Regions(vectors, torch.ones(vectors.shape[:2], dtype=torch.bool)))
    expected = torch.tensor(stored[f"scan/{direction}/{normalisation}/{pooling}"]).T
    error = (scan.score(images, Words(words, mask)) - expected).abs()
    assert (error <= tolerance * expected.abs().clamp_min(1)).all()
