"""CAMP: the paper's network and the authors' two, against their formulas in plain loops and the authors' numbers."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor

from models.batches import Regions, Words
from models.rerankers.camp import LENGTH_SLOPE, Camp, CampConfig, length_scorer
from models.rerankers.camp_released import (
    PUBLISHED_NAMES,
    CampAttention,
    CampAttentionConfig,
    CampReleased,
    CampReleasedConfig,
)
from models.rerankers.encoders import EncoderConfig
from models.rerankers.registry import build

WIDTH = 6
ENCODERS = EncoderConfig(num_words=5, feature_dim=8, width=WIDTH)
Vectors = list[Tensor]


def mean(values: Vectors, logits: list[float], real: list[bool]) -> Tensor:
    """Mean of the values weighted by the softmax of the real ones' logits."""
    weights = [math.exp(logit) if is_real else 0.0 for logit, is_real in zip(logits, real, strict=True)]
    return sum(w * value for w, value in zip(weights, values, strict=True)) / sum(weights)  # type: ignore[return-value]


def attend(queries: Vectors, keys: Vectors, values: Vectors, real: list[bool]) -> Vectors:
    """softmax(q k' / sqrt(width of a key)) values, over the real keys."""
    return [mean(values, [float(q @ k) / math.sqrt(len(k)) for k in keys], real) for q in queries]


def l2norm(x: Tensor) -> Tensor:
    return x / (x.square().sum().sqrt() + 1e-8)


def score_by_the_paper(camp: Camp, v: Vectors, t: Vectors) -> Tensor:
    """Score of one pair by equations 1 to 6 and sections 3.3 and 3.4."""
    keys_v, keys_t = [camp.region_key(x) for x in v], [camp.word_key(x) for x in t]
    activation = {"relu": torch.relu, "tanh": torch.tanh}[camp.config.activation]
    pooled = []
    for side, own, messages in (
        (camp.region_side, v, attend(keys_v, keys_t, t, [True] * len(t))),
        (camp.word_side, t, attend(keys_t, keys_v, v, [True] * len(v))),
    ):
        fused = []
        for x, message in zip(own, messages, strict=True):
            gate = 1 / (1 + torch.exp(-x * message))
            fused.append(activation(side.fusion(gate * (x + message))) + x)
        logits = [float(side.pool(x)[0]) / math.sqrt(WIDTH) for x in fused]
        pooled.append(mean(fused, logits, [True] * len(fused)))
    return torch.sigmoid(camp.scorer(pooled[0] + pooled[1])[0])


def messages_of(
    model: CampReleased | CampAttention, v: Vectors, t: Vectors, real: list[bool]
) -> tuple[Vectors, Vectors]:
    """The authors' messages after both attentions: of every region, and of every place of a sentence."""
    m = model.messages
    m1 = attend([m.word_query(x) for x in t], [m.region_key(x) for x in v], v, [True] * len(v))
    m2 = attend([m.region_query(x) for x in v], [m.word_key(x) for x in t], t, real)
    f1 = attend([m.of_words_query(x) for x in m2], [m.of_words_key(x) for x in m2], m2, [True] * len(v))
    f2 = attend([m.of_regions_query(x) for x in m1], [m.of_regions_key(x) for x in m1], m1, real)
    return f1, f2


def pad_places(t: Vectors, places: int) -> tuple[Vectors, list[bool]]:
    """Words and zeros up to the number of places, and which are words."""
    padding = max(places - len(t), 0)
    return [*t, *[torch.zeros(WIDTH).double()] * padding], [True] * len(t) + [False] * padding


def gate_fusion(model: CampReleased, v: Vectors, t: Vectors) -> Tensor:
    """Score of one pair by the authors' `gate_fusion_new`."""
    t, real = pad_places(t, 7)
    f1, f2 = messages_of(model, v, t, real)
    sides = []
    for own, messages, kept, fusion, pool in (
        (v, f1, [True] * len(v), model.region_fusion, model.region_pool),
        (t, f2, real, model.word_fusion, model.word_pool),
    ):
        changed = []
        for x, message in zip(own, map(l2norm, messages), strict=True):
            gate = torch.sigmoid(x @ message)
            changed.append(fusion(gate * torch.cat([x, message])).relu() + x)
        logits = [pool(x).tolist() for x in changed]
        branches = [mean(changed, list(branch), kept) for branch in zip(*logits, strict=True)]
        sides.append(l2norm(sum(branches) / len(branches)))  # type: ignore[arg-type]
    return torch.sigmoid(model.scorer(torch.cat(sides))[0])


def cross_attention(model: CampAttention, v: Vectors, t: Vectors) -> Tensor:
    """Score of one pair by the authors' `cross_attention_new`, whose means count the padding."""
    t, real = pad_places(t, model.config.num_places)
    f1, f2 = messages_of(model, v, t, real)
    return l2norm(torch.stack(f1).mean(0)) @ l2norm(torch.stack(f2).mean(0))


@torch.no_grad()
def check_scores(
    model: Any, formula: Callable[[Any, Vectors, Vectors], Tensor], words: int, regions: int, seed: int
) -> None:
    """Scores of 2 x 2 pairs with random weights equal the formula's."""
    torch.manual_seed(seed)
    model = model.double()
    for weight in model.parameters():
        weight.normal_(std=0.5)
    v, t = torch.randn(2, regions, WIDTH).double(), torch.randn(2, words, WIDTH).double()
    images = model.precompute(Regions(v, torch.ones(v.shape[:2], dtype=torch.bool)))
    scores = model.score(images, Words(t, torch.ones(t.shape[:2], dtype=torch.bool)))
    for q in range(2):
        for k in range(2):
            expected = float(formula(model, list(v[k]), list(t[q])))
            assert scores[q, k].item() == pytest.approx(expected, rel=1e-10, abs=1e-10)


sizes = st.tuples(st.integers(1, 5), st.integers(1, 4), st.integers(0, 2**32 - 1))
paper_configs = st.builds(
    CampConfig, key_width=st.none() | st.integers(1, 8), activation=st.sampled_from(["relu", "tanh"])
)


@given(paper_configs, sizes)
def test_the_paper_equals_its_formula_in_plain_loops(config: CampConfig, size: tuple[int, int, int]) -> None:
    check_scores(Camp(config, ENCODERS), score_by_the_paper, *size)


@settings(max_examples=50)
@given(st.builds(CampReleasedConfig, num_branches=st.integers(1, 5)), sizes)
def test_gate_fusion_equals_the_formula_in_plain_loops(config: CampReleasedConfig, size: tuple[int, int, int]) -> None:
    check_scores(CampReleased(config, ENCODERS), gate_fusion, *size)


@settings(max_examples=50)
@given(st.builds(CampAttentionConfig, num_places=st.integers(0, 9)), sizes)
def test_cross_attention_equals_the_formula_in_plain_loops(
    config: CampAttentionConfig, size: tuple[int, int, int]
) -> None:
    check_scores(CampAttention(config, ENCODERS), cross_attention, *size)


@pytest.mark.realdata
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-6)])
@pytest.mark.parametrize(
    ("kind", "config", "file"),
    [
        (CampReleased, CampReleasedConfig(), "camp_gate_fusion_new.safetensors"),
        (CampAttention, CampAttentionConfig(), "camp_cross_attention_new.safetensors"),
    ],
)
@torch.no_grad()
def test_equals_the_authors_code(
    parity_dir: Path, kind: Any, config: Any, file: str, dtype: torch.dtype, tolerance: float
) -> None:
    stored = load_file(parity_dir / file)
    model = kind(config, EncoderConfig(num_words=5, feature_dim=8, width=64)).double()
    ours = {theirs: name for name, theirs in PUBLISHED_NAMES.items()}
    state = {}
    for name in [name for name in stored if name.startswith("state.")]:
        layer, _, tensor = name.removeprefix("state.").rpartition(".")
        state[f"{ours[layer]}.{tensor}"] = stored[name]
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected
    assert all(name.startswith(("region_encoder.", "sentence_encoder.")) for name in missing)

    model = model.to(dtype)
    v, t = stored["images"].to(dtype), stored["captions"].to(dtype)
    images = model.precompute(Regions(v, torch.ones(v.shape[:2], dtype=torch.bool)))
    mask = torch.arange(t.shape[1]) < stored["lengths"][:, None]
    expected = stored["scores"].T
    error = (model.score(images, Words(t, mask)) - expected).abs()
    assert (error <= tolerance * expected.abs().clamp_min(1)).all()


@pytest.mark.parametrize("name", ["camp", "camp-released", "camp-released-attention"])
def test_region_vectors_are_normalised_only_when_configured(name: str) -> None:
    features = Regions(torch.randn(2, 3, 8), torch.ones(2, 3, dtype=torch.bool))
    kept = build(name, ENCODERS).project(features).vectors.norm(dim=-1)
    normalised = build(name, EncoderConfig(num_words=5, feature_dim=8, width=WIDTH, unit_regions=True))
    assert not torch.allclose(kept, torch.ones(2, 3), atol=1e-3)
    torch.testing.assert_close(normalised.project(features).vectors.norm(dim=-1), torch.ones(2, 3))


@pytest.mark.parametrize("width", [2, 33, 320])
def test_a_fresh_scorer_measures_length(width: int) -> None:
    torch.manual_seed(0)
    directions = torch.nn.functional.normalize(torch.randn(400, width), dim=1)
    lengths = torch.linspace(0.5, 2.0, 400)
    with torch.no_grad():
        scorer = length_scorer(width)
        shorter, longer = (scorer(share * directions)[:, 0] for share in (1.0, 1.5))
        measured = scorer(lengths[:, None] * directions)[:, 0]
    assert (longer > shorter).all()
    if width == 320:
        assert torch.corrcoef(torch.stack([measured, lengths]))[0, 1] > 0.98
        assert abs(float(measured[(lengths - 2**0.5).abs() < 0.02].mean())) < 1


@pytest.mark.parametrize("unit_regions", [True, False])
@pytest.mark.parametrize("unit_words", [True, False])
def test_only_the_sum_of_unit_vectors_is_measured_by_its_length_at_first(unit_regions: bool, unit_words: bool) -> None:
    scorer = Camp(CampConfig(), replace(ENCODERS, unit_regions=unit_regions, unit_words=unit_words)).scorer
    at_zero = float(scorer.get_parameter("2.bias").detach())
    assert (at_zero == pytest.approx(-LENGTH_SLOPE * math.sqrt(2))) is (unit_regions and unit_words)
    assert (abs(at_zero) <= 1 / math.sqrt(WIDTH)) is not (unit_regions and unit_words)


@torch.no_grad()
def test_a_fresh_scorer_of_one_number_measures_the_length_of_one_sign() -> None:
    torch.manual_seed(0)
    scorer = length_scorer(1)
    by_sign = [scorer(torch.tensor([[1.0], [1.5]]) * sign)[:, 0].diff() for sign in (1, -1)]
    assert [float(change) > 0 for change in sorted(by_sign)] == [False, True]
    assert float(min(by_sign)) == 0
