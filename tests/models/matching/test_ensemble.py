"""Ensembles: the mean of their members, and a matcher like any other."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from models.batches import Regions
from models.matching.calibration import Calibration
from models.matching.checkpoint import new_matcher
from models.matching.encoded import EncodedImages, EncodedTexts
from models.matching.ensemble import Ensemble, build_ensemble, ensemble_header
from models.matching.hubness import HubnessConfig
from models.matching.hubness_banks import HubnessBanks, VectorBank
from models.matching.lazy_matcher import MatcherHeader
from models.matching.log_odds import LogOddsModel
from models.matching.matcher import Matcher
from models.matching.single_matcher import SingleMatcher
from models.matching.stage_one import StageOneConfig
from models.rerankers.encoders import EncoderConfig
from models.text.vocabulary import SPECIALS, Vocabulary
from tests.support.small_bert import WIDTH, small_reader

WORDS = ("a", "dog", "runs", "on", "grass", "two", "men", "play", "ball")
SENTENCES = ["a dog runs", "two men play ball on grass"]


def small_member(name: str, seed: int, width: int = 12, vocabulary: tuple[str, ...] = WORDS) -> SingleMatcher:
    torch.manual_seed(seed)
    encoders = EncoderConfig(num_words=4 + len(vocabulary), feature_dim=10, word_dim=6, width=width)
    head = StageOneConfig(width=width, embed_dim=4)
    return new_matcher(name, encoders, head, Vocabulary((*SPECIALS, *vocabulary)), "detector", f"{name}{seed}").eval()


def pictures() -> Regions:
    generator = torch.Generator().manual_seed(2)
    mask = torch.arange(5) < torch.tensor([5, 3, 1, 4])[:, None]
    return Regions(torch.randn(4, 5, 10, generator=generator), mask)


def encode(matcher: Matcher) -> tuple[EncodedImages, EncodedTexts]:
    return matcher.encode_regions(pictures())[0], matcher.encode_sentences(SENTENCES)[0]


def test_a_sentence_is_not_read_as_a_list_of_letters() -> None:
    ensemble = build_ensemble([small_member("scan-t2i-avg", seed) for seed in (1, 2)])
    with pytest.raises(TypeError, match="sentences come as a list"):
        ensemble.encode_sentences("dog")


def log_odds(slope: float, intercept: float, margin_weight: float = 0.0) -> Calibration:
    return Calibration(text=LogOddsModel(slope, intercept, margin_weight), image=LogOddsModel(2 * slope, intercept - 1))


def corrected_member(name: str, seed: int, width: int, calibration: Calibration, image_weight: float) -> SingleMatcher:
    """A member with a hubness correction of its own."""
    hubness = HubnessConfig(image_weight=image_weight, text_weight=0.2, neighbours=2, similarity="scores")
    banks = HubnessBanks(VectorBank.quantise(torch.randn(6, 1, width, generator=torch.Generator().manual_seed(seed))))
    return small_member(name, seed, width).with_calibration(replace(calibration, hubness=hubness), banks)


PAIRS = [
    (("scan-t2i-avg", 1, 12), ("scan-i2t-avg", 2, 8)),
    (("scan-t2i-avg", 1, 12), ("scan-t2i-avg", 2, 12)),
    (("caan", 1, 12), ("caan", 2, 6)),
    (("sman", 1, 12), ("sman", 2, 6)),
    (("camp", 1, 12), ("camp-released", 2, 6)),
]


@pytest.mark.parametrize("members", PAIRS)
def test_the_score_is_the_mean_of_the_members(
    members: tuple[tuple[str, int, int], ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, embeddings = [], []
    for member in [small_member(*one) for one in members]:
        images, image_embeddings = member.encode_regions(pictures())
        texts, text_embeddings = member.encode_sentences(SENTENCES)
        expected.append(member.score(images, texts))
        embeddings.append((image_embeddings, text_embeddings))
    ensemble = build_ensemble([small_member(*one) for one in members])
    images, image_embeddings = ensemble.encode_regions(pictures())
    texts, text_embeddings = ensemble.encode_sentences(SENTENCES)
    scores = ensemble.score(images, texts)
    torch.testing.assert_close(scores, (expected[0] + expected[1]) / 2)
    assert not torch.allclose(expected[0], expected[1])
    torch.testing.assert_close(image_embeddings, embeddings[0][0])  # the shortlist is the first's
    torch.testing.assert_close(text_embeddings, embeddings[0][1])
    assert image_embeddings.shape[1] == ensemble.embed_dim
    assert texts.vectors.shape[2] == ensemble.word_dim == sum(width for _, _, width in members)
    assert isinstance(ensemble, Ensemble)
    for one in ensemble.members:
        monkeypatch.setattr(one.reranker, "block", (2, 1))
    torch.testing.assert_close(ensemble.score_in_blocks(images, texts), scores)
    torch.testing.assert_close(ensemble.score(images[:2], texts[[1]]), scores[1:, :2])


@pytest.mark.parametrize("members", PAIRS)
def test_a_stored_record_scores_like_the_picture_it_came_from(members: tuple[tuple[str, int, int], ...]) -> None:
    ensemble = build_ensemble([small_member(*one) for one in members])
    images, texts = encode(ensemble)
    arrays = {
        field: (tensor.half() if tensor.is_floating_point() else tensor).numpy()
        for field, tensor in images.tensors().items()
    }
    assert {field: array.shape[1:] for field, array in arrays.items()} == ensemble.image_layout(5, 10)
    stored = ensemble.score(ensemble.images_from(arrays), texts)
    torch.testing.assert_close(stored, ensemble.score(images, texts), atol=5e-3, rtol=5e-3)


def test_members_keep_their_own_hubness_corrections() -> None:
    """Offsets are the members' own in records, and one number a sentence, found once, in a request."""
    first = corrected_member("scan-t2i-avg", 1, 12, log_odds(20.0, -3.0), image_weight=0.5)
    second = corrected_member("caan", 2, 8, log_odds(4.0, 1.0), image_weight=0.3)
    ensemble = build_ensemble([first, second])
    images, texts = encode(ensemble)
    record = images.tensors()
    assert list(record) == [
        *("vectors_0", "gram_0", "mask_0", "hubness_0"),
        *("vectors_1", "intra_1", "inter_1", "mask_1", "hubness_1"),
    ]
    own = [encode(member) for member in (first, second)]
    for number, (own_images, _) in enumerate(own):
        assert own_images.offset is not None
        assert torch.equal(record[f"hubness_{number}"], own_images.offset)
    torch.testing.assert_close(texts.offset, (20 * own[0][1].offset + 4 * own[1][1].offset) / 2)
    scores = [member.score(*each) for member, each in zip((first, second), own, strict=True)]
    expected = (20 * scores[0] - 3 + 4 * scores[1] + 1) / 2
    torch.testing.assert_close(ensemble.score(images, texts), expected)
    read = ensemble.images_from({name: tensor.numpy() for name, tensor in record.items()})
    torch.testing.assert_close(ensemble.score(read, texts), expected)
    torch.testing.assert_close(ensemble.score(read[1:], texts), expected[:, 1:])


def test_weights_of_all_members_are_averaged() -> None:
    ensemble = build_ensemble([small_member("caan", 1), small_member("caan", 2)])
    images, texts = encode(ensemble)
    explanation = ensemble.explain(images, texts)
    assert explanation.kind == "weights"
    assert explanation.attention is None
    assert explanation.contributions is not None
    assert explanation.word_weights is not None
    torch.testing.assert_close(explanation.contributions.sum(2), ensemble.score(images, texts))
    torch.testing.assert_close(explanation.word_weights.sum(2), torch.ones(2, 4))


def test_members_that_attend_in_different_directions_have_contributions_alone() -> None:
    ensemble = build_ensemble([small_member("scan-t2i-avg", 1), small_member("scan-i2t-avg", 2)])
    images, texts = encode(ensemble)
    explanation = ensemble.explain(images, texts)
    assert explanation.attention is None
    assert explanation.contributions is not None  # which both have exactly, whoever attends
    torch.testing.assert_close(explanation.contributions.sum(2), ensemble.score(images, texts))
    assert explanation.shares is not None
    torch.testing.assert_close(explanation.shares.sum(3), explanation.contributions)
    lse = build_ensemble([small_member("scan-t2i-avg", 1), small_member("scan-i2t-lse", 2)])
    assert lse.explain(*encode(lse)).contributions is None  # the second has none
    assert lse.explain(*encode(lse)).shares is None


def test_calibrated_members_of_several_families_are_averaged_as_log_odds() -> None:
    """The mean of the log odds, and a picture's probability is near that of members who agree."""
    scan = corrected_member("scan-t2i-avg", 1, 12, log_odds(20.0, -3.0, 5.0), image_weight=0.5)
    caan = small_member("caan", 2, 8).with_calibration(log_odds(4.0, 1.0))
    ensemble = build_ensemble([scan, caan])
    images, texts = encode(ensemble)
    own = [member.score(*encode(member)) for member in (scan, caan)]
    scores = ensemble.score(images, texts)
    torch.testing.assert_close(scores, ((25 * own[0] - 3) + (4 * own[1] + 1)) / 2, atol=1e-4, rtol=1e-4)
    explanation = ensemble.explain(images, texts)
    assert explanation.contributions is not None
    torch.testing.assert_close(explanation.contributions.sum(2), scores, atol=1e-4, rtol=1e-4)
    assert explanation.shares is not None
    torch.testing.assert_close(explanation.shares.sum((2, 3)), scores, atol=1e-4, rtol=1e-4)
    parts = [member.explain(*encode(member)).shares for member in (scan, caan)]
    assert parts[0] is not None
    assert parts[1] is not None
    real = texts.mask[:, None, :, None] & pictures().mask[None, :, None]
    intercepts = (-3 + 1) / real.sum((2, 3), keepdim=True)  # spread evenly over all pairs
    expected = ((25 * parts[0] + 4 * parts[1] + intercepts) / 2).masked_fill(~real, 0)
    torch.testing.assert_close(explanation.shares, expected, atol=1e-4, rtol=1e-4)
    assert ensemble.calibration is not None
    assert ensemble.calibration.text.slope + ensemble.calibration.text.margin_weight == pytest.approx(1)


@pytest.mark.parametrize("names", [("scan-t2i-avg", "caan"), ("scan-t2i-avg", "scan-i2t-avg")])
def test_an_ensemble_of_equally_calibrated_members_is_as_sure_as_each(names: tuple[str, str]) -> None:
    same = log_odds(20.0, -3.0, 5.0)
    members = [small_member(name, 1).with_calibration(same) for name in names]
    calibration = build_ensemble(members).calibration
    assert ensemble_header([MatcherHeader.of(member) for member in members]).calibration == calibration
    scale, shift = (25, -3) if "caan" in names else (1, 0)
    assert calibration is not None
    for side in ("text", "image"):
        found = getattr(calibration, side).probability(scale * 0.3 + shift, scale * 0.1, -2.0)
        assert float(found) == pytest.approx(float(getattr(same, side).probability(0.3, 0.1, -2.0)))


def test_names_and_digests_tell_ensembles_apart() -> None:
    one, other = small_member("scan-t2i-avg", 1), small_member("scan-i2t-avg", 2)
    ensemble = build_ensemble([one, other])
    assert isinstance(ensemble, Ensemble)
    assert ensemble.name == "scan-t2i-avg+scan-i2t-avg"
    assert ensemble.extractor_digest == "detector"
    headers = [MatcherHeader.of(member) for member in (one, other)]
    assert ensemble_header(headers) == MatcherHeader.of(ensemble)
    assert len({one.digest, other.digest, ensemble.digest, build_ensemble([other, one]).digest}) == 4
    assert build_ensemble([one]) is one


def test_members_that_do_not_go_together_are_refused() -> None:
    one = small_member("scan-t2i-avg", 1)
    for names in (["scan-t2i-avg", "caan"], ["camp", "camp-released-attention"], ["summax-t2i", "summax-i2t"]):
        with pytest.raises(ValueError, match=r"different scales.* not all are calibrated"):
            build_ensemble([small_member(name, 1) for name in names])
    build_ensemble([small_member("camp", 1), small_member("camp-released", 1)])
    other = small_member("scan-i2t-avg", 2)
    other.extractor_digest = "another"
    with pytest.raises(ValueError, match="different detectors"):
        build_ensemble([one, other])


READ_ALIKE = ["a dog runs", "A dog's running on grass!", "..."]


def by_states(tmp_path: Path, seed: int) -> SingleMatcher:
    """A member that reads states of a pretrained encoder."""
    torch.manual_seed(seed)
    encoders = EncoderConfig(num_words=0, feature_dim=10, width=8, text="pretrained", state_dim=WIDTH)
    head, reader = StageOneConfig(width=8, embed_dim=4), small_reader(tmp_path)
    return new_matcher("scan-t2i-avg", encoders, head, reader, "detector", f"states{seed}").eval()


@pytest.mark.parametrize("first", [0, 1])
@torch.no_grad()
def test_members_that_read_otherwise_read_the_words_of_the_first(tmp_path: Path, first: int) -> None:
    members = [
        by_states(tmp_path, 1),
        small_member("scan-t2i-avg", 2),
        small_member("scan-t2i-avg", 3, vocabulary=("a",)),
    ]
    members = [members.pop(first), *members]
    ensemble = build_ensemble(members)
    rows = [ensemble.words(sentence) for sentence in READ_ALIKE]
    expected = []
    for member in members:
        texts, _ = member.encode_texts(member.reader.encode_tokens(rows))
        expected.append(member.score(member.encode_regions(pictures())[0], texts))
    assert ensemble.num_pieces(rows[0]) == max(member.num_pieces(rows[0]) for member in members)
    images, _ = ensemble.encode_regions(pictures())
    texts, _ = ensemble.encode_sentences(READ_ALIKE)
    assert texts.mask.sum(1).tolist() == [len(row) for row in rows]
    torch.testing.assert_close(ensemble.score(images, texts), torch.stack(expected).mean(0))
    words, _ = ensemble.encode_words(READ_ALIKE)
    torch.testing.assert_close(ensemble.score(images, ensemble.texts_from(words)), torch.stack(expected).mean(0))
    explained = ensemble.explain(images, texts)
    assert explained.contributions is not None
    torch.testing.assert_close(explained.contributions.sum(2), torch.stack(expected).mean(0), atol=1e-5, rtol=1e-5)
    assert ensemble_header([MatcherHeader.of(member) for member in members]) == MatcherHeader.of(ensemble)


@torch.no_grad()
def test_a_short_question_is_scored_by_the_first_member_alone() -> None:
    calibrations = [replace(log_odds(20.0, -3.0), short_question=3), log_odds(4.0, 1.0)]
    members = [
        small_member(name, seed).with_calibration(calibration)
        for name, seed, calibration in zip(("scan-t2i-avg", "caan"), (1, 2), calibrations, strict=True)
    ]
    ensemble = build_ensemble(members)
    images, _ = ensemble.encode_regions(pictures())
    asked, _ = ensemble.encode_sentences(SENTENCES)  # of three words and of six
    each = [
        member.score(member.encode_regions(pictures())[0], member.encode_sentences(SENTENCES)[0]) for member in members
    ]
    rescaled = [20.0 * each[0] - 3.0, 4.0 * each[1] + 1.0]
    scores = ensemble.score(images, asked)
    torch.testing.assert_close(scores[0], rescaled[0][0])
    torch.testing.assert_close(scores[1], (rescaled[0][1] + rescaled[1][1]) / 2)
    explained = ensemble.explain(images, asked)
    assert explained.contributions is not None
    torch.testing.assert_close(explained.contributions.sum(2), scores, atol=1e-4, rtol=1e-5)
    answers = ensemble.texts_from(asked.words, asked=False)
    torch.testing.assert_close(ensemble.score(images, answers), (rescaled[0] + rescaled[1]) / 2)


@torch.no_grad()
def test_questions_that_are_short_for_another_member_are_scored_by_both() -> None:
    calibrations = [log_odds(20.0, -3.0), replace(log_odds(20.0, -3.0), short_question=3, short_summand=0.5)]
    members = [
        small_member("scan-t2i-avg", seed).with_calibration(calibration)
        for seed, calibration in enumerate(calibrations, start=1)
    ]
    ensemble = build_ensemble(members)
    assert ensemble.short_question == 3  # their scores differ from those of the same captions
    each = [member.score(*encode(member)) for member in members]
    torch.testing.assert_close(ensemble.score(*encode(ensemble)), (each[0] + each[1]) / 2)
    images, asked = encode(ensemble)
    answers = ensemble.score(images, ensemble.texts_from(asked.words, asked=False))
    torch.testing.assert_close(ensemble.score(images, asked)[0], answers[0] + 0.25)
    torch.testing.assert_close(ensemble.score(images, asked)[1], answers[1])
