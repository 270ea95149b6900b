"""Hubness correction: offsets by the formula in plain loops, and nothing else about a matcher changes."""

import copy
import math
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from models.batches import Regions, Words
from models.matching.calibration import Calibration
from models.matching.checkpoint import BadCheckpoint, load_matcher, new_matcher, save_calibration, save_matcher
from models.matching.encoded import EncodedImages
from models.matching.ensemble import build_ensemble
from models.matching.hubness import HubnessConfig, Similarity
from models.matching.hubness_banks import HubnessBanks, VectorBank
from models.matching.log_odds import LogOddsModel
from models.matching.single_matcher import SingleMatcher
from models.matching.stage_one import StageOneConfig, StageOneHead
from models.rerankers.encoders import EncoderConfig
from models.text.vocabulary import SPECIALS, Vocabulary
from tests.support.fakes import COLOURS
from tests.support.shape_checks import unchecked_shapes
from tests.support.small_matchers import SENTENCES, encode_small, small_matcher, small_pictures

NAMES = ["scan-t2i-avg", "scan-i2t-lse", "bfan-equal", "caan", "camp", "sman"]
CONFIG = HubnessConfig(image_weight=0.5, text_weight=0.3, neighbours=2)
LOG_ODDS = LogOddsModel(2.0, -1.0)
TWO_VECTORS = torch.ones(1, 2, dtype=torch.bool)  # of an entry of a bank


def sentence_bank(matcher: SingleMatcher, count: int = 5, width: int | None = None) -> VectorBank:
    generator = torch.Generator().manual_seed(4)
    return VectorBank.quantise(torch.randn(count, 2, width or matcher.word_dim, generator=generator))


def picture_bank(matcher: SingleMatcher, count: int = 6) -> VectorBank:
    generator = torch.Generator().manual_seed(5)
    return VectorBank.quantise(torch.randn(count, 2, matcher.pooled.config.region_width, generator=generator))


def corrected_matcher(name: str, config: HubnessConfig = CONFIG, with_pictures: bool = False) -> SingleMatcher:
    matcher = small_matcher(name)
    calibration = Calibration(text=LOG_ODDS, image=LOG_ODDS, hubness=config)
    banks = HubnessBanks(sentence_bank(matcher), picture_bank(matcher) if with_pictures else None)
    return matcher.with_calibration(calibration, banks)


def typical_embeddings(plain: SingleMatcher) -> tuple[list[Tensor], list[Tensor]]:
    """Stage one's embeddings of the typical sentences and of the typical pictures, each alone."""
    sentences, typical = sentence_bank(plain).dequantise(), picture_bank(plain).dequantise()
    return (
        [plain.pooled.embed_texts(Words(one[None], TWO_VECTORS))[0].detach() for one in sentences],
        [plain.pooled.embed_images(Regions(one[None], TWO_VECTORS))[0].detach() for one in typical],
    )


def mean_of_two_best(values: list[float]) -> float:
    return sum(sorted(values)[-2:]) / 2


@pytest.mark.parametrize("with_pictures", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_scores_are_lowered_by_the_cosines_with_the_banks_in_stage_one(name: str, with_pictures: bool) -> None:
    plain = small_matcher(name)
    image_embeddings = plain.encode_regions(small_pictures())[1]
    text_embeddings = plain.encode_sentences(SENTENCES)[1]
    expected = plain.score(*encode_small(plain))
    sentences, typical = typical_embeddings(plain)
    for q in range(len(text_embeddings)):
        for k in range(len(image_embeddings)):
            image_cosines = [float(image_embeddings[k] @ other) for other in sentences]
            text_cosines = [float(text_embeddings[q] @ other) for other in (typical if with_pictures else sentences)]
            expected[q, k] -= 0.5 * mean_of_two_best(image_cosines) + 0.3 * mean_of_two_best(text_cosines)
    check_scores(corrected_matcher(name, CONFIG, with_pictures), expected)


@pytest.mark.parametrize(
    ("name", "with_pictures"),
    [*((name, told) for name in ("scan-i2t-lse", "caan", "camp") for told in (False, True)), ("sman", True)],
)
def test_scores_are_lowered_by_the_rerankers_scores_with_the_banks(name: str, with_pictures: bool) -> None:
    plain = small_matcher(name)
    images, texts = encode_small(plain)
    expected = plain.score(images, texts)
    vectors = sentence_bank(plain).dequantise()
    for k in range(len(images)):
        typical = [plain.texts_from(Words(one[None], TWO_VECTORS)) for one in vectors]
        scores = [float(plain.score(images[k : k + 1], one)) for one in typical]
        expected[:, k] -= 0.5 * mean_of_two_best(scores)
    for q in range(len(texts)):
        typical_regions = picture_bank(plain).dequantise() if with_pictures else vectors
        as_pictures = [plain.encode_projected(Regions(one[None], TWO_VECTORS)) for one in typical_regions]
        expected[q] -= 0.3 * mean_of_two_best([float(plain.score(one, texts[q : q + 1])) for one in as_pictures])
    check_scores(corrected_matcher(name, replace(CONFIG, similarity="scores"), with_pictures), expected)


def check_scores(matcher: SingleMatcher, expected: Tensor) -> None:
    """The matcher's scores, in every way of getting them, are the expected ones."""
    images, texts = encode_small(matcher)
    torch.testing.assert_close(matcher.score(images, texts), expected)
    torch.testing.assert_close(matcher.score(images, matcher.texts_from(texts.words)), expected)
    matcher.reranker.block = (2, 1)  # type: ignore[misc]
    torch.testing.assert_close(matcher.score_in_blocks(images, texts), expected)
    for q in range(len(texts)):
        for k in range(len(images)):
            alone = matcher.score(images[k : k + 1], texts[q : q + 1])
            torch.testing.assert_close(alone[0, 0], expected[q, k])


def test_raw_region_features_can_not_be_compared_with_the_bank_by_scores() -> None:
    by_scores = replace(CONFIG, similarity="scores")
    with pytest.raises(ValueError, match="needs a bank of typical pictures, or must go by embeddings"):
        corrected_matcher("sman", by_scores)
    corrected_matcher("sman", replace(by_scores, text_weight=0.0)).encode_regions(small_pictures())


@pytest.mark.parametrize("name", ["scan-t2i-avg", "scan-i2t-avg", "caan"])
def test_contributions_add_up_to_the_corrected_score(name: str) -> None:
    matcher, plain = corrected_matcher(name), small_matcher(name)
    images, texts = encode_small(matcher)
    explanation, before = matcher.explain(images, texts), plain.explain(*encode_small(plain))
    assert explanation.contributions is not None
    assert before.contributions is not None
    torch.testing.assert_close(explanation.contributions.sum(2), matcher.score(images, texts))
    assert not explanation.contributions.masked_select(~texts.mask[:, None]).any()
    difference = (before.contributions - explanation.contributions)[0, :, : int(texts.mask[0].sum())]
    torch.testing.assert_close(difference, difference[:, :1].expand_as(difference))  # all words alike
    assert explanation.shares is not None
    torch.testing.assert_close(explanation.shares.sum(3), explanation.contributions)


@pytest.mark.parametrize("with_pictures", [False, True])
@pytest.mark.parametrize("name", ["scan-t2i-avg", "sman"])
@settings(max_examples=25)
@given(
    image_weight=st.sampled_from([0.0, 0.1, 0.7]),
    text_weight=st.sampled_from([0.0, 0.2, 0.9]),
    similarity=st.sampled_from(["embeddings", "scores"]),
    neighbours=st.integers(1, 8),
)
@unchecked_shapes()
def test_products_of_stage_one_are_cosines_minus_both_offsets(
    name: str, with_pictures: bool, image_weight: float, text_weight: float, similarity: Similarity, neighbours: int
) -> None:
    plain = small_matcher(name)
    pictures_before, sentences_before = plain.encode_regions(small_pictures())[1], plain.encode_sentences(SENTENCES)[1]
    config = HubnessConfig(
        image_weight=0.5,
        text_weight=0.0,
        neighbours=neighbours,
        similarity=similarity,
        stage_one_weight=image_weight,
        stage_one_text_weight=text_weight,
    )
    matcher = corrected_matcher(name, config, with_pictures)
    of_pictures, of_sentences = matcher.encode_regions(small_pictures())[1], matcher.encode_sentences(SENTENCES)[1]
    assert of_pictures.shape[1] == of_sentences.shape[1] == matcher.embed_dim == plain.embed_dim + config.extra_dim
    assert config.extra_dim == (2 if text_weight else 1 if image_weight else 0)
    sentences, typical = typical_embeddings(plain)

    def nearness(embedding: Tensor, bank: list[Tensor]) -> float:
        nearest = sorted(float(embedding @ other) for other in bank)[-neighbours:]
        return sum(nearest) / len(nearest)

    products = of_sentences @ of_pictures.T
    for q, sentence in enumerate(sentences_before):
        of_sentence = text_weight * nearness(sentence, typical if with_pictures else sentences)
        for k, picture in enumerate(pictures_before):
            expected = float(sentence @ picture) - image_weight * nearness(picture, sentences) - of_sentence
            assert float(products[q, k]) == pytest.approx(expected, abs=1e-6)
    alike = matcher.similarity_query(of_pictures) @ of_pictures.T
    torch.testing.assert_close(alike, pictures_before @ pictures_before.T)  # similar pictures go by the plain cosine
    ensemble = build_ensemble([matcher, corrected_matcher(name)])
    assert torch.equal(ensemble.encode_regions(small_pictures())[1], of_pictures)
    assert torch.equal(ensemble.encode_sentences(SENTENCES)[1], of_sentences)
    assert ensemble.embed_dim == matcher.embed_dim
    assert torch.equal(ensemble.similarity_query(of_pictures), matcher.similarity_query(of_pictures))


def test_sentences_encoded_alone_have_the_products_of_those_encoded_together() -> None:
    matcher = corrected_matcher("scan-t2i-avg", replace(CONFIG, stage_one_text_weight=0.4), with_pictures=True)
    together = matcher.encode_sentences(SENTENCES)[1]
    alone = torch.cat([matcher.encode_sentences([sentence])[1] for sentence in SENTENCES])
    torch.testing.assert_close(alone, together)


def test_without_a_weight_for_stage_one_nothing_changes(tmp_path: Path) -> None:
    plain, matcher = small_matcher("scan-t2i-avg"), corrected_matcher("scan-t2i-avg")
    assert matcher.embed_dim == plain.embed_dim
    assert torch.equal(matcher.encode_regions(small_pictures())[1], plain.encode_regions(small_pictures())[1])
    assert torch.equal(matcher.encode_sentences(SENTENCES)[1], plain.encode_sentences(SENTENCES)[1])
    embeddings = matcher.encode_regions(small_pictures())[1]
    assert torch.equal(matcher.similarity_query(embeddings), embeddings)
    save_matcher(matcher, tmp_path)
    assert "stage_one" not in (tmp_path / "calibration.json").read_text()


@settings(max_examples=10)
@given(image_weight=st.sampled_from([0.0, 0.7]), text_weight=st.sampled_from([0.0, 0.4]), with_pictures=st.booleans())
def test_weights_and_banks_are_stored_with_the_matcher(
    image_weight: float, text_weight: float, with_pictures: bool
) -> None:
    config = replace(CONFIG, stage_one_weight=image_weight, stage_one_text_weight=text_weight)
    matcher = corrected_matcher("scan-t2i-avg", config, with_pictures)
    with tempfile.TemporaryDirectory() as folder:
        save_matcher(matcher, Path(folder), torch.float32)
        loaded = load_matcher(Path(folder))
    assert loaded.hubness is not None
    assert loaded.hubness.config == config
    assert torch.equal(loaded.encode_sentences(SENTENCES)[1], matcher.encode_sentences(SENTENCES)[1])
    torch.testing.assert_close(loaded.score(*encode_small(loaded)), matcher.score(*encode_small(matcher)))


def test_a_picture_without_regions_has_no_offset_in_stage_one() -> None:
    empty = Regions(torch.zeros(1, 4, 16), torch.zeros(1, 4, dtype=torch.bool))
    matcher = corrected_matcher("scan-t2i-avg", replace(CONFIG, stage_one_weight=0.7))
    assert matcher.encode_regions(empty)[1].isfinite().all()


def test_a_picture_without_regions_has_no_offset_where_its_scores_are_infinite() -> None:
    empty = Regions(torch.zeros(1, 4, 16), torch.zeros(1, 4, dtype=torch.bool))
    images, _ = corrected_matcher("summax-t2i", replace(CONFIG, similarity="scores")).encode_regions(empty)
    assert images.offset is not None
    assert images.offset.tolist() == [0]


def test_a_record_gains_one_number_a_picture() -> None:
    before = small_matcher("scan-t2i-avg").image_layout(4, 16)
    matcher = corrected_matcher("scan-t2i-avg")
    layout = matcher.image_layout(4, 16)
    assert layout == {**before, "hubness": ()}
    assert list(layout) == ["vectors", "gram", "mask", "hubness"]  # stores compare the order, too
    images, texts = encode_small(matcher)
    arrays = {name: tensor.numpy() for name, tensor in images.tensors().items()}
    assert arrays["hubness"].dtype == np.float32
    torch.testing.assert_close(matcher.score(matcher.images_from(arrays), texts), matcher.score(images, texts))
    del arrays["hubness"]
    with pytest.raises(KeyError, match="hubness"):
        matcher.images_from(arrays)


def test_pictures_encoded_alone_are_those_encoded_together() -> None:
    matcher = corrected_matcher("bfan-prob")
    together, texts = encode_small(matcher)
    alone = EncodedImages.cat([matcher.encode_regions(small_pictures()[[k]])[0] for k in range(5)])
    torch.testing.assert_close(matcher.score(alone, texts), matcher.score(together, texts))


def test_a_copy_in_float64_has_its_bank_in_float64() -> None:
    matcher = corrected_matcher("scan-t2i-avg")
    images, texts = encode_small(matcher)
    exact = copy.deepcopy(matcher).double()
    exact_images = exact.encode_projected(matcher.reranker.project(small_pictures()).to(dtype=torch.float64))
    exact_texts = exact.texts_from(texts.words.to(dtype=torch.float64))
    assert exact_images.offset is not None
    assert exact_images.offset.dtype == exact_texts.offset.dtype == torch.float64
    scores = exact.score(exact_images, exact_texts)
    np.testing.assert_allclose(scores.numpy(), matcher.score(images, texts).numpy(), atol=2e-3)


@torch.no_grad()
def test_embeddings_of_a_bank_are_made_once_and_are_those_of_the_bank_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    encoders = EncoderConfig(num_words=len(COLOURS) + len(SPECIALS), feature_dim=16, word_dim=6, width=8)
    plain = new_matcher("scan-t2i-avg", encoders, StageOneConfig(width=8), Vocabulary((*SPECIALS, *COLOURS)), "fake")
    calibration = Calibration(text=LOG_ODDS, image=LOG_ODDS, hubness=CONFIG)

    def offsets(matcher: SingleMatcher) -> Tensor:
        return matcher.texts_from(matcher.reranker.encode_texts(matcher.tokenize(SENTENCES))).offset

    bank, other = (
        VectorBank.quantise(torch.randn(6, 1, 8, generator=torch.Generator().manual_seed(n))) for n in (1, 2)
    )
    matcher = plain.with_calibration(calibration, HubnessBanks(sentence_bank(plain), bank))
    first = offsets(matcher)
    monkeypatch.setattr(StageOneHead, "embed_images", None)  # nothing asks for it a second time
    assert torch.equal(offsets(matcher), first)
    monkeypatch.undo()
    exact = offsets(copy.deepcopy(matcher).double())
    assert exact.dtype == torch.float64
    torch.testing.assert_close(exact.float(), first)
    assert matcher.hubness is not None
    matcher.hubness.picture_vectors = other.dequantise()
    expected = offsets(plain.with_calibration(calibration, HubnessBanks(sentence_bank(plain), other)))
    assert torch.equal(offsets(matcher), expected)
    assert not torch.equal(expected, first)


@torch.no_grad()
def test_typical_pictures_are_encoded_once_and_are_those_of_the_weights_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    banks = [VectorBank.quantise(torch.randn(6, 2, 8, generator=torch.Generator().manual_seed(n))) for n in (1, 2)]
    calibration = Calibration(text=LOG_ODDS, image=LOG_ODDS, hubness=replace(CONFIG, similarity="scores"))
    plain = small_matcher("caan")

    def calibrated(bank: VectorBank) -> SingleMatcher:
        return plain.with_calibration(calibration, HubnessBanks(sentence_bank(plain), bank))

    def offsets(matcher: SingleMatcher) -> Tensor:
        return matcher.texts_from(Words(vectors, torch.ones(2, 3, dtype=torch.bool))).offset

    vectors = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(3))
    matcher = calibrated(banks[0])
    first = offsets(matcher)
    with monkeypatch.context() as patch:
        patch.setattr(type(plain.reranker), "precompute", None)  # nothing asks for it a second time
        assert torch.equal(offsets(matcher), first)
    for weight in plain.reranker.parameters():  # which both share
        weight.mul_(1.5)
    second = offsets(matcher)
    assert torch.equal(second, offsets(calibrated(banks[0])))
    assert not torch.equal(second, first)
    assert matcher.hubness is not None
    one = copy.deepcopy(matcher)
    for weight in one.reranker.parameters():
        weight.mul_(1.5)
    offsets(one)
    other = copy.deepcopy(one)
    for weight in other.reranker.parameters():  # as often as those of the first copy, and otherwise
        weight.mul_(0.5)
    assert torch.equal(
        offsets(other), offsets(other.with_calibration(calibration, HubnessBanks(sentence_bank(plain), banks[0])))
    )
    matcher.hubness.picture_vectors = banks[1].dequantise()
    assert torch.equal(offsets(matcher), offsets(calibrated(banks[1])))
    assert not torch.equal(offsets(matcher), second)


def test_a_picture_without_regions_has_no_offset() -> None:
    empty = Regions(torch.zeros(1, 4, 16), torch.zeros(1, 4, dtype=torch.bool))
    images, _ = corrected_matcher("scan-i2t-lse").encode_regions(empty)
    assert images.tensors()["hubness"].tolist() == [0.0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"image_weight": -0.1}, "below 0"),
        ({"text_weight": math.nan}, "below 0"),
        ({"stage_one_weight": -0.5}, "below 0"),
        ({"stage_one_text_weight": -0.5}, "below 0"),
        ({"neighbours": 0}, "neighbours"),
    ],
)
def test_a_correction_that_makes_no_sense_is_refused(options: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        HubnessConfig(**{"image_weight": 0.5, "text_weight": 0.5, "neighbours": 2, **options})  # type: ignore[arg-type]


def test_a_missing_damaged_or_unfit_bank_is_refused(tmp_path: Path) -> None:
    matcher = small_matcher("scan-t2i-avg")
    save_matcher(matcher, tmp_path)
    calibration = Calibration(text=LOG_ODDS, image=LOG_ODDS, hubness=CONFIG)
    assert (
        save_calibration(tmp_path, calibration, HubnessBanks(sentence_bank(matcher))) == load_matcher(tmp_path).digest
    )
    kept = (tmp_path / "hubs.safetensors").read_bytes()
    (tmp_path / "hubs.safetensors").write_bytes(kept[:-1] + bytes([kept[-1] ^ 1]))
    with pytest.raises(BadCheckpoint, match="damaged or edited"):
        load_matcher(tmp_path)
    save_calibration(tmp_path, calibration)
    with pytest.raises(BadCheckpoint, match=r"hubs\.safetensors"):
        load_matcher(tmp_path)
    save_calibration(tmp_path, calibration, HubnessBanks(sentence_bank(matcher, width=3)))
    with pytest.raises(BadCheckpoint, match="wide"):
        load_matcher(tmp_path)
    save_calibration(tmp_path, calibration, HubnessBanks(sentence_bank(matcher), sentence_bank(matcher, width=3)))
    with pytest.raises(BadCheckpoint, match="typical pictures must be 8 wide"):
        load_matcher(tmp_path)
    save_matcher(matcher, tmp_path)
    assert not (tmp_path / "hubs.safetensors").exists()
