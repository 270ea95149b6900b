"""Stage one's cosine as a part of the score: by the formula, explained exactly, and stored."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.matching.checkpoint import load_matcher, save_matcher
from models.matching.encoded import EncodedImages
from models.matching.ensemble import build_ensemble
from models.matching.hubness import HubnessConfig
from tests.support.shape_checks import unchecked_shapes
from tests.support.small_matchers import PLAIN, SENTENCES, encode_small, fused, small_matcher, small_pictures


@pytest.mark.parametrize("name", ["scan-t2i-avg", "bfan-equal", "caan", "camp", "sman"])
@settings(max_examples=15)
@given(
    weight=st.sampled_from([0.1, 2.5]),
    by_sides=st.none() | st.tuples(*[st.sampled_from([0.0, 0.3])] * 4),
)
@unchecked_shapes()
def test_the_score_is_the_rerankers_plus_the_weighted_product_of_stage_one(
    name: str, weight: float, by_sides: tuple[float, float, float, float] | None
) -> None:
    hubness = None
    if by_sides is not None:
        hubness = HubnessConfig(
            image_weight=by_sides[0],
            text_weight=by_sides[1],
            neighbours=2,
            stage_one_weight=by_sides[2],
            stage_one_text_weight=by_sides[3],
        )
    alone, both = fused(name, 0.0, hubness), fused(name, weight, hubness)
    products = alone.encode_sentences(SENTENCES)[1] @ alone.encode_regions(small_pictures())[1].T
    expected = alone.score(*encode_small(alone)) + weight * products
    images, texts = encode_small(both)
    close: dict[str, Any] = {"atol": 1e-3 * weight, "rtol": 0.0}  # a picture's embedding is kept in 16 bits a number
    torch.testing.assert_close(both.score(images, texts), expected, **close)
    torch.testing.assert_close(both.score_in_blocks(images, texts), both.score(images, texts))
    torch.testing.assert_close(both.score(images, both.texts_from(texts.words)), both.score(images, texts))
    assert both.embed_dim == alone.embed_dim


@pytest.mark.parametrize("name", ["scan-t2i-avg", "scan-i2t-avg", "bfan-prob", "caan", "summax-t2i", "sman"])
def test_contributions_and_shares_add_up_to_the_score_exactly(name: str) -> None:
    hubness = HubnessConfig(image_weight=0.5, text_weight=0.3, neighbours=2, stage_one_weight=0.2)
    matcher, alone = fused(name, 0.8, hubness), fused(name, 0.0)
    images, texts = encode_small(matcher)
    explanation, before = matcher.explain(images, texts), alone.explain(*encode_small(alone))
    assert (explanation.contributions is None) is (before.contributions is None) is (name == "sman")
    if explanation.contributions is None:
        return
    torch.testing.assert_close(explanation.contributions.sum(2), matcher.score(images, texts))
    assert explanation.shares is not None
    torch.testing.assert_close(explanation.shares.sum(3), explanation.contributions)
    padded = ~(texts.mask[:, None, :, None] & images.region_mask[:, None])
    assert not explanation.shares.masked_select(padded).any()


@torch.no_grad()
def test_a_words_share_with_a_region_is_their_part_of_the_cosine() -> None:
    matcher = fused("summax-t2i", 1.0)
    images, texts = encode_small(matcher)
    assert images.embedding is not None
    alone = fused("summax-t2i", 0.0)
    difference = matcher.explain(images, texts).shares - alone.explain(*encode_small(alone)).shares  # type: ignore[operator]
    head = matcher.pooled
    regions, words = images.rows.tensors()["vectors"], texts.vectors
    for q in range(len(texts)):
        num_words = int(texts.mask[q].sum())
        for k in range(len(images)):
            num_regions = int(images.region_mask[k].sum())
            lengths = float(head.text(words[q, :num_words].mean(0)).norm()) * float(
                head.image(regions[k, :num_regions].mean(0)).norm()
            )
            for w in range(num_words):
                for r in range(num_regions):
                    product = float(head.text(words[q, w]) @ head.image(regions[k, r]))
                    expected = product / (num_words * num_regions * lengths)
                    assert float(difference[q, k, w, r]) == pytest.approx(expected, abs=1e-3)


def test_records_hold_the_embedding_and_give_the_same_scores() -> None:
    hubness = HubnessConfig(image_weight=0.5, text_weight=0.3, neighbours=2)
    matcher = fused("scan-t2i-avg", 0.8, hubness)
    layout = matcher.image_layout(4, 16)
    assert list(layout) == ["vectors", "gram", "mask", "hubness", "stage_one"]
    assert layout["stage_one"] == (5,)  # the embedding and its offset
    images, texts = encode_small(matcher)
    arrays = {name: tensor.numpy() for name, tensor in images.tensors().items()}
    arrays["stage_one"] = arrays["stage_one"].astype("<f2")
    assert torch.equal(matcher.score(matcher.images_from(arrays), texts), matcher.score(images, texts))
    alone = EncodedImages.cat([images[[k]] for k in range(len(images))])
    torch.testing.assert_close(matcher.score(alone, texts), matcher.score(images, texts))
    assert "stage_one" not in fused("scan-t2i-avg", 0.0, hubness).image_layout(4, 16)


def test_members_of_an_ensemble_keep_their_own_weights() -> None:
    hubness = HubnessConfig(image_weight=0.5, text_weight=0.3, neighbours=2, stage_one_text_weight=0.4)
    members = [fused("scan-t2i-avg", 0.8, hubness), fused("scan-i2t-avg", 0.0), fused("scan-t2i-avg", 0.3, seed=2)]
    ensemble = build_ensemble(members)
    images, texts = encode_small(ensemble)
    mean = torch.stack([member.score(*encode_small(member)) for member in members]).mean(0)
    torch.testing.assert_close(ensemble.score(images, texts), mean)
    records = {name: tensor.numpy() for name, tensor in images.tensors().items()}
    torch.testing.assert_close(ensemble.score(ensemble.images_from(records), texts), mean)
    contributions = ensemble.explain(images, texts).contributions
    assert contributions is not None
    torch.testing.assert_close(contributions.sum(2), mean)


@settings(max_examples=10)
@given(short=st.integers(0, 4), by_sides=st.tuples(*[st.sampled_from([0.0, 0.3])] * 4))
def test_short_questions_are_scored_and_explained_by_the_reranker_alone_and_captions_are_not(
    short: int, by_sides: tuple[float, float, float, float]
) -> None:
    names = ("image_weight", "text_weight", "stage_one_weight", "stage_one_text_weight")
    weights: dict[str, Any] = dict(zip(names, by_sides, strict=True))
    hubness = HubnessConfig(neighbours=2, **weights)
    by_sentence = fused("scan-t2i-avg", 0.0, replace(hubness, image_weight=0.0))
    all_fused = fused("scan-t2i-avg", 0.8, hubness)
    assert all_fused.calibration is not None
    banks = all_fused.hubness.banks if all_fused.hubness else None
    calibration = replace(all_fused.calibration, short_question=short, short_summand=-0.7)
    some = all_fused.with_calibration(calibration, banks)
    images, texts = encode_small(some)
    whole, alone = all_fused.score(*encode_small(all_fused)), by_sentence.score(*encode_small(by_sentence)) - 0.7
    for row, sentence in enumerate(SENTENCES):
        expected = whole if len(sentence.split()) > short else alone
        torch.testing.assert_close(some.score(images, texts)[row], expected[row])
    captions = some.texts_from(texts.words, asked=False)
    torch.testing.assert_close(some.score(images, captions), whole)
    for sentences in (texts, captions):
        contributions = some.explain(images, sentences).contributions
        assert contributions is not None
        torch.testing.assert_close(contributions.sum(2), some.score(images, sentences))
        torch.testing.assert_close(some.score_in_blocks(images, sentences), some.score(images, sentences))
    ensemble = build_ensemble([some, fused("bfan-equal", 0.0)])
    assert ensemble.short_question == some.short_question == short
    images, texts = encode_small(ensemble)
    for asked, own in ((True, some), (False, all_fused)):
        other = build_ensemble([own, fused("bfan-equal", 0.0)])
        scores = ensemble.score(images, ensemble.texts_from(texts.words, asked))
        torch.testing.assert_close(scores, other.score(*encode_small(other)))


def test_the_weight_is_kept_in_the_folder(tmp_path: Path) -> None:
    save_matcher(fused("scan-t2i-avg", 0.75), tmp_path)
    assert load_matcher(tmp_path).cosine_weight == 0.75
    longer = replace(PLAIN, cosine_weight=0.75, short_question=6, short_summand=-0.25)
    save_matcher(small_matcher("scan-t2i-avg").with_calibration(longer), tmp_path)
    assert load_matcher(tmp_path).calibration == longer
    save_matcher(fused("scan-t2i-avg", 0.0), tmp_path)
    written = (tmp_path / "calibration.json").read_text()
    assert "cosine_" not in written
    assert "short_" not in written
    assert load_matcher(tmp_path).cosine_weight == 0.0
    for bad in (-0.1, math.inf):
        with pytest.raises(ValueError, match="0 or more"):
            replace(PLAIN, cosine_weight=bad)
