"""CAAN against the paper's formulas in plain loops."""

import math
from collections.abc import Iterable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from models.batches import Regions, Words
from models.rerankers.base import stored_options
from models.rerankers.caan import Caan, CaanConfig
from models.rerankers.encoders import EncoderConfig
from models.rerankers.registry import build

D, Z = 6, 5


def model(slope: float, seed: int, intra_modal: str = "SA") -> Caan:
    torch.manual_seed(seed)
    encoders = EncoderConfig(num_words=9, feature_dim=4, word_dim=3, width=D)
    config = CaanConfig(attention_width=Z, slope=slope, intra_modal=intra_modal)  # type: ignore[arg-type]
    caan = Caan(config, encoders).double().eval()
    torch.nn.init.normal_(caan.affinity.weight)
    if intra_modal == "FA":
        torch.nn.init.normal_(caan.region_alike.weight)
        torch.nn.init.normal_(caan.word_alike.weight)
    return caan


def ratio(value: float, length: float) -> float:
    return value / length if length else 0.0


def softmax(logits: list[float]) -> list[float]:
    exps = [math.exp(logit - max(logits)) for logit in logits]
    return [value / sum(exps) for value in exps]


def total(vectors: Iterable[Tensor]) -> Tensor:
    first, *others = vectors
    return sum(others, first)


def score_by_the_paper(caan: Caan, v: Tensor, u: Tensor) -> tuple[float, list[float], list[float]]:
    """Score, f and g of one picture's regions v [n D] and one sentence's words u [m D]: eqs. 6 to 17, one by one.

    Hv and Hu are those of eqs. 12, 13, 16 and 17 (SA), or of 14 and 15 (FA).
    """
    n, m, slope = len(v), len(u), caan.config.slope
    k, q1, q2 = caan.affinity.weight, caan.region_intra.weight.T, caan.region_inter.weight.T
    q3, q4 = caan.word_intra.weight.T, caan.word_inter.weight.T
    h = [[math.tanh(float(v[i] @ k @ u[j])) for j in range(m)] for i in range(n)]
    h = [[x if x > 0 else slope * x for x in row] for row in h]
    huv = [[ratio(h[i][j], math.hypot(*(h[r][j] for r in range(n)))) for j in range(m)] for i in range(n)]
    hvu = [[ratio(h[i][j], math.hypot(*(h[i][w] for w in range(m)))) for j in range(m)] for i in range(n)]
    of_region = [[ratio(x, math.hypot(*row)) for x in row] for row in huv]
    of_word = [[ratio(hvu[i][j], math.hypot(*(hvu[r][j] for r in range(n)))) for i in range(n)] for j in range(m)]
    hv = [[sum(a * b for a, b in zip(x, y, strict=True)) for y in of_region] for x in of_region]
    hu = [[sum(a * b for a, b in zip(x, y, strict=True)) for y in of_word] for x in of_word]
    if caan.config.intra_modal == "FA":
        m1, m2 = caan.region_alike.weight, caan.word_alike.weight
        hv = [[float(x @ m1 @ y) for y in v] for x in v]
        hu = [[float(x @ m2 @ y) for y in u] for x in u]
    f, g = [], []
    for i in range(n):
        inner = total(hv[i][r] * (v[r] @ q1) for r in range(n)) + total(huv[i][j] * (u[j] @ q2) for j in range(m))
        f.append(float(torch.tanh(inner) @ caan.region_weight.weight[0]))
    for j in range(m):
        inner = total(hu[j][w] * (u[w] @ q3) for w in range(m)) + total(hvu[i][j] * (v[i] @ q4) for i in range(n))
        g.append(float(torch.tanh(inner) @ caan.word_weight.weight[0]))
    f, g = softmax(f), softmax(g)
    attended_regions = total(f[i] * v[i] for i in range(n))
    attended_words = total(g[j] * u[j] for j in range(m))
    return float(attended_regions @ attended_words), f, g


@settings(max_examples=25, deadline=None)
@given(
    regions=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    words=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    slope=st.sampled_from([0.0, 0.1]),
    intra_modal=st.sampled_from(["SA", "FA"]),
    seed=st.integers(0, 2**16),
)
@torch.no_grad()
def test_scores_and_weights_equal_the_papers_formulas(
    regions: list[int], words: list[int], slope: float, intra_modal: str, seed: int
) -> None:
    caan = model(slope, seed, intra_modal)
    v = torch.randn(len(regions), max(regions), D, dtype=torch.float64)
    u = torch.randn(len(words), max(words), D, dtype=torch.float64)
    images = caan.precompute(Regions(v, torch.arange(max(regions)) < torch.tensor(regions)[:, None]))
    encoded = Words(u, torch.arange(max(words)) < torch.tensor(words)[:, None])
    scores, explanation = caan.score(images, encoded), caan.explain(images, encoded)
    assert explanation.region_weights is not None
    assert explanation.word_weights is not None
    assert explanation.shares is not None
    for q, m in enumerate(words):
        for k, n in enumerate(regions):
            score, f, g = score_by_the_paper(caan, v[k, :n], u[q, :m])
            assert float(scores[q, k]) == pytest.approx(score, abs=1e-10)
            assert explanation.region_weights[q, k, :n].tolist() == pytest.approx(f, abs=1e-10)
            assert explanation.word_weights[q, k, :m].tolist() == pytest.approx(g, abs=1e-10)
            shares = [[f[i] * float(v[k, i] @ u[q, j]) * g[j] for i in range(n)] for j in range(m)]
            expected = torch.tensor(shares, dtype=torch.float64)
            torch.testing.assert_close(explanation.shares[q, k, :m, :n], expected, atol=1e-10, rtol=0)


@torch.no_grad()
def test_a_contribution_is_the_words_weighted_sum_of_its_products_with_regions() -> None:
    caan = model(0.0, 1)
    v, u = torch.randn(1, 4, D, dtype=torch.float64), torch.randn(1, 3, D, dtype=torch.float64)
    images = caan.precompute(Regions(v, torch.ones(1, 4, dtype=torch.bool)))
    explanation = caan.explain(images, Words(u, torch.ones(1, 3, dtype=torch.bool)))
    assert explanation.contributions is not None
    assert explanation.region_weights is not None
    assert explanation.word_weights is not None
    f, g = explanation.region_weights[0, 0], explanation.word_weights[0, 0]
    for j in range(3):
        share = sum(float(f[i] * (v[0, i] @ u[0, j]) * g[j]) for i in range(4))
        assert float(explanation.contributions[0, 0, j]) == pytest.approx(share, abs=1e-10)


@torch.no_grad()
def test_the_feature_form_knows_what_is_alike_before_it_meets_the_other_side() -> None:
    """Hv V'Q1 needs the picture alone: its record has the fields of the other form, and gradients reach M1 and M2."""
    caan = model(0.0, 1, "FA")
    v, u = torch.randn(2, 4, D, dtype=torch.float64), torch.randn(1, 3, D, dtype=torch.float64)
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    images = caan.precompute(Regions(v, mask))
    alike = v[1, :2] @ caan.region_alike.weight @ v[1, :2].T
    torch.testing.assert_close(images.intra[1, :2], alike @ v[1, :2] @ caan.region_intra.weight.T)
    assert not images.intra[1, 2:].any()
    assert set(images.tensors()) == set(model(0.0, 1).precompute(Regions(v, mask)).tensors())
    with torch.enable_grad():
        words = Words(u, torch.ones(1, 3, dtype=torch.bool))
        caan.score(caan.precompute(Regions(v, mask)), words).sum().backward()  # type: ignore[no-untyped-call]
    for weight in (caan.region_alike.weight, caan.word_alike.weight):
        assert weight.grad is not None
        assert weight.grad.isfinite().all()
        assert weight.grad.any()


def test_the_form_is_stored_only_where_it_is_not_the_papers_full_model() -> None:
    assert stored_options(CaanConfig()) == {"attention_width": 256, "slope": 0.0}
    assert stored_options(CaanConfig(intra_modal="FA"))["intra_modal"] == "FA"
    again = build("caan", EncoderConfig(num_words=9, width=D), stored_options(CaanConfig(intra_modal="FA")))
    assert again.config == CaanConfig(intra_modal="FA")


def test_without_any_positive_affinity_all_weights_are_equal() -> None:
    caan = model(0.0, 1)
    torch.nn.init.zeros_(caan.affinity.weight)
    regions = Regions(torch.randn(2, 3, D, dtype=torch.float64), torch.ones(2, 3, dtype=torch.bool))
    words = Words(torch.randn(1, 2, D, dtype=torch.float64), torch.ones(1, 2, dtype=torch.bool))
    caan.score(caan.precompute(regions), words).sum().backward()  # type: ignore[no-untyped-call]
    for name, weight in caan.named_parameters():
        if weight.grad is not None:
            assert weight.grad.isfinite().all(), name
    with torch.no_grad():
        explanation = caan.explain(caan.precompute(regions), words)
    assert explanation.region_weights is not None
    torch.testing.assert_close(explanation.region_weights, torch.full((1, 2, 3), 1 / 3, dtype=torch.float64))
    means = regions.vectors.mean(1) @ words.vectors.mean(1).T
    torch.testing.assert_close(caan.score(caan.precompute(regions), words), means.T)


@torch.no_grad()
def test_many_pictures_score_as_each_alone() -> None:
    torch.manual_seed(2)
    caan = Caan(CaanConfig(attention_width=512), EncoderConfig(num_words=9, feature_dim=4, width=D)).eval()
    regions = Regions(torch.randn(150, 36, D), torch.ones(150, 36, dtype=torch.bool))
    words = Words(torch.randn(1, 3, D), torch.ones(1, 3, dtype=torch.bool))
    images = caan.precompute(regions)  # 150 x 36 x 512 numbers: more than one block
    alone = torch.cat([caan.score(images[k : k + 1], words) for k in range(150)], 1)
    torch.testing.assert_close(caan.score(images, words), alone)
