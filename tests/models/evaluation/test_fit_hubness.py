"""A hubness correction is fitted by arithmetic alone, and its typical pictures are means of pictures' regions."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.datasets.captioned_features import CaptionedFeatures
from models.evaluation import fit_hubness as fitting
from models.evaluation.evaluate import score_all_pairs
from models.evaluation.fit_hubness import (
    SHARES_TRIED,
    HubnessPlan,
    Nearness,
    SideWeights,
    fit_hubness,
    nearness_to_banks,
    typical_pictures,
    typical_sentences,
    with_hubness,
)
from models.evaluation.ranks import Ranks
from models.evaluation.scored_pairs import ScoredPairs
from models.matching.hubness_banks import HubnessBanks, VectorBank
from models.rerankers.attention import l2_normalise
from tests.support.fakes import D
from tests.support.small_matchers import small_matcher

CAPTIONS = [["red", "blue green"], ["black"], ["a white thing", "red red"], ["green"]]


def drawn_pictures(count: int, seed: int = 0) -> CaptionedFeatures:
    random = np.random.default_rng(seed)
    mask = np.arange(3) <= random.integers(0, 3, count)[:, None]
    features = random.normal(size=(count, 3, D)).astype(np.float32)
    return CaptionedFeatures.from_arrays(features, mask, [CAPTIONS[n % 4] for n in range(count)], "fake-extractor")


def drawn_banks(width: int = 8) -> HubnessBanks:
    generator = torch.Generator().manual_seed(3)
    return HubnessBanks(*(VectorBank.quantise(torch.randn(count, 1, width, generator=generator)) for count in (5, 4)))


@settings(max_examples=10)
@given(seed=st.integers(0, 2**31), full=st.sampled_from([(1.0, 1.0), (0.3, 2.0)]))
def test_no_pair_of_shares_ranks_better_than_the_one_that_is_chosen(seed: int, full: tuple[float, float]) -> None:
    generator = torch.Generator().manual_seed(seed)
    image_of = torch.arange(24) // 2
    near = Nearness(torch.randn(12, generator=generator), torch.randn(24, generator=generator))
    right = 2.0 * (image_of[:, None] == torch.arange(12))
    clean = ScoredPairs(right + torch.randn(24, 12, generator=generator), image_of)
    pairs = near.corrected(clean, SideWeights(-0.5, -0.5))  # with hubs, as the nearness tells
    own = torch.tensor([0, 2, 3, 5, 6, 7, 11])

    def rsum(shares: SideWeights) -> float:
        corrected = near.corrected(pairs, SideWeights(*full).times(shares)).among(own)
        return float(Ranks.of(corrected).recalls()["rsum"])

    best = near.best_shares(pairs, SideWeights(*full), own)
    others = [SideWeights(a, b) for a in SHARES_TRIED[::5] for b in SHARES_TRIED[::5]]
    assert rsum(best) + 1e-6 >= max(rsum(shares) for shares in others)


@pytest.mark.parametrize("similarity", ["embeddings", "scores"])
def test_the_fitted_correction_leaves_the_scores_that_are_served(similarity: str) -> None:
    plain, data, banks = small_matcher("scan-i2t-lse"), drawn_pictures(12), drawn_banks()
    plan = HubnessPlan(similarity=similarity, stage_one=True, bank_size=5)  # type: ignore[arg-type]
    scores, stage_one = score_all_pairs(plain, data)
    own = torch.arange(0, 12, 2)
    for chosen in (plan, replace(plan, fit_share=True), replace(plan, share=0.0)):
        fitted = fit_hubness(plain, data, scores, stage_one, own, chosen, banks)
        near = nearness_to_banks(plain, data, chosen, banks)[1]
        fixed = SideWeights(fitted.config.stage_one_weight, fitted.config.stage_one_text_weight)
        assert fixed == near.best_shares(stage_one, SideWeights(1.0, 1.0), own)
        served = score_all_pairs(with_hubness(plain, fitted.config, banks), data)
        torch.testing.assert_close(fitted.scores.scores, served[0].scores, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(fitted.stage_one.scores, served[1].scores, atol=1e-5, rtol=1e-5)


def test_typical_pictures_are_means_of_the_regions_of_pictures_that_have_any() -> None:
    matcher, data = small_matcher("scan-t2i-avg"), drawn_pictures(7)
    data.mask[2] = False
    expected = []
    for picture in (0, 1, 3, 4, 5, 6):
        regions = data.regions([picture])
        projected = matcher.reranker.project(regions).vectors[0].detach()
        expected.append(projected[regions.mask[0]].mean(0))
    bank = typical_pictures(matcher, data, HubnessPlan(bank_size=6), seed=0)  # each picture is a group of its own
    found = bank.dequantise()[:, 0]
    for mean in expected:
        distances = (found - mean).norm(dim=1)
        assert float(distances.min()) < 0.02 * float(mean.norm())
    with pytest.raises(ValueError, match="there are 6"):
        typical_pictures(matcher, data, HubnessPlan(bank_size=7), seed=0)
    raw = typical_pictures(small_matcher("sman"), data, HubnessPlan(bank_size=2), seed=0)
    assert raw.width == D  # a model whose layers read raw features
    assert l2_normalise(raw.dequantise()).norm(dim=2).min() > 0.9


@torch.no_grad()
def test_the_vectors_of_an_entry_are_those_of_its_group() -> None:
    matcher, data = small_matcher("scan-t2i-avg"), drawn_pictures(7)
    data.mask[2] = False
    data.mask[3, 1:] = False  # one region, which stands for all three
    regions = data.regions(slice(None))
    projected = matcher.reranker.project(regions).vectors
    bank = typical_pictures(matcher, data, HubnessPlan(bank_size=6, parts=3), seed=0).dequantise()
    assert bank.shape == (6, 3, matcher.pooled.config.region_width)
    for picture in (0, 1, 3, 4, 5, 6):  # each a group of its own
        for region in projected[picture, regions.mask[picture]]:
            assert float((bank - region).norm(dim=2).min()) < 0.02 * float(region.norm())
    words = matcher.encode_sentences(["red", "blue green"])[0].words
    bank = typical_sentences(matcher, ["red", "blue green"], HubnessPlan(bank_size=2, parts=4), 0).dequantise()
    for vectors, mask in zip(words.vectors, words.mask, strict=True):
        for word in vectors[mask]:
            assert float((bank - word).norm(dim=2).min()) < 0.02 * float(word.norm())


def test_a_bank_is_made_of_so_many_drawn_at_random(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "MOST_TYPICAL", 4)
    drawn = fitting.sampled_places(9, HubnessPlan(bank_size=2, parts=2), seed=1).tolist()
    assert drawn == sorted(set(drawn))
    assert (len(drawn), max(drawn) < 9) == (4, True)
    assert len(fitting.sampled_places(9, HubnessPlan(bank_size=5, parts=2), seed=1)) == 5  # an entry for each
    assert fitting.sampled_places(9, HubnessPlan(bank_size=2), seed=1).tolist() == [*range(9)]  # means need no room
    bank = typical_pictures(small_matcher("scan-t2i-avg"), drawn_pictures(9), HubnessPlan(bank_size=5, parts=2), 0)
    assert bank.dequantise().shape == (5, 2, 8)
