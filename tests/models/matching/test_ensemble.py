"""Ensembles: the mean of their members, and a matcher like any other."""

from dataclasses import replace

import pytest
import torch

from models.batches import Regions
from models.matching.calibration import Calibration, Evidence
from models.matching.checkpoint import calibrated, new_matcher
from models.matching.ensemble import combined
from models.matching.hubness import Hubs
from models.matching.matcher import Matcher
from models.matching.stage_one import PooledConfig
from models.rerankers.base import score_in_blocks, score_pairs
from models.rerankers.encoders import EncoderConfig
from models.text.vocabulary import SPECIALS, Vocabulary

WORDS = ("a", "dog", "runs", "on", "grass", "two", "men", "play", "ball")
SENTENCES = ["a dog runs", "two men play ball on grass"]


def matcher(name: str, seed: int, width: int = 12, vocabulary: tuple[str, ...] = WORDS) -> Matcher:
    torch.manual_seed(seed)
    encoders = EncoderConfig(num_words=4 + len(vocabulary), feature_dim=10, word_dim=6, width=width)
    pooled = PooledConfig(width=width, embed_dim=4)
    return new_matcher(name, encoders, pooled, Vocabulary((*SPECIALS, *vocabulary)), "detector", f"{name}{seed}").eval()


def pictures() -> Regions:
    generator = torch.Generator().manual_seed(2)
    mask = torch.arange(5) < torch.tensor([5, 3, 1, 4])[:, None]
    return Regions(torch.randn(4, 5, 10, generator=generator), mask)


PAIRS = [
    (("scan-t2i-avg", 1, 12), ("scan-i2t-avg", 2, 8)),
    (("scan-t2i-avg", 1, 12), ("scan-t2i-avg", 2, 12)),
    (("caan", 1, 12), ("caan", 2, 6)),
    (("sman", 1, 12), ("sman", 2, 6)),
    (("camp", 1, 12), ("camp-released", 2, 6)),
]


@pytest.mark.parametrize("members", PAIRS)
def test_the_score_is_the_mean_of_the_members(members: tuple[tuple[str, int, int], ...]) -> None:
    apart = [matcher(*member) for member in members]
    together = combined([matcher(*member) for member in members])
    expected, embeddings = [], []
    for one in apart:
        images, picture_embeddings = one.encode_regions(pictures())
        words, text_embeddings = one.encode_sentences(SENTENCES)
        expected.append(one.score(images, words))
        embeddings.append((picture_embeddings, text_embeddings))
    images, picture_embeddings = together.encode_regions(pictures())
    words, text_embeddings = together.encode_sentences(SENTENCES)
    scores = together.score(images, words)
    torch.testing.assert_close(scores, (expected[0] + expected[1]) / 2)
    assert not torch.allclose(expected[0], expected[1])
    torch.testing.assert_close(picture_embeddings, embeddings[0][0])  # the shortlist is the first's
    torch.testing.assert_close(text_embeddings, embeddings[0][1])
    assert words.vectors.shape[2] == together.word_dim == sum(width for _, _, width in members)
    torch.testing.assert_close(score_in_blocks(together.reranker, images, words, 2, 1), scores)
    torch.testing.assert_close(score_pairs(together.reranker, images[:2], words), scores.diagonal())


@pytest.mark.parametrize("members", PAIRS)
def test_a_stored_record_scores_like_the_picture_it_came_from(members: tuple[tuple[str, int, int], ...]) -> None:
    together = combined([matcher(*member) for member in members])
    images, _ = together.encode_regions(pictures())
    arrays = {
        field: (tensor.half() if tensor.is_floating_point() else tensor).numpy()
        for field, tensor in images.tensors().items()
    }
    assert {field: array.shape[1:] for field, array in arrays.items()} == together.image_layout(5, 10)
    words, _ = together.encode_sentences(SENTENCES)
    stored = together.score(together.images_from(arrays), words)
    torch.testing.assert_close(stored, together.score(images, words), atol=5e-3, rtol=5e-3)


def test_what_all_members_can_say_is_averaged() -> None:
    members = [matcher("caan", 1), matcher("caan", 2)]
    together = combined(members)
    images, _ = together.encode_regions(pictures())
    words, _ = together.encode_sentences(SENTENCES)
    told = together.explain(images, words)
    assert told.kind == "weights"
    assert told.attention is None
    assert told.contributions is not None
    assert told.word_weights is not None
    torch.testing.assert_close(told.contributions.sum(2), together.score(images, words))
    torch.testing.assert_close(told.word_weights.sum(2), torch.ones(2, 4))


def test_members_that_look_in_different_directions_say_no_more_than_is_exact() -> None:
    together = combined([matcher("scan-t2i-avg", 1), matcher("scan-i2t-avg", 2)])
    images, _ = together.encode_regions(pictures())
    words, _ = together.encode_sentences(SENTENCES)
    told = together.explain(images, words)
    assert told.attention is None
    assert told.contributions is not None  # which both have exactly, whoever attends
    torch.testing.assert_close(told.contributions.sum(2), together.score(images, words))
    lse = combined([matcher("scan-t2i-avg", 1), matcher("scan-i2t-lse", 2)])
    assert lse.explain(lse.encode_regions(pictures())[0], words).contributions is None  # the second has none


def calibration(slope: float, intercept: float, lead: float = 0.0) -> Calibration:
    return Calibration(text=Evidence(slope, intercept, lead), image=Evidence(2 * slope, intercept - 1))


def test_calibrated_members_of_several_families_are_averaged_by_what_their_scores_mean() -> None:
    """The mean of the log odds, and a picture's probability is near that of members who agree."""
    hubs = Hubs(pictures=0.5, sentences=0.2, best=1)
    scan = calibrated(matcher("scan-t2i-avg", 1), replace(calibration(20.0, -3.0, 5.0), hubs=hubs), torch.eye(3, 12))
    caan = calibrated(matcher("caan", 2, 8), calibration(4.0, 1.0))
    together = combined([scan, caan])
    images, _ = together.encode_regions(pictures())
    words, _ = together.encode_sentences(SENTENCES)
    own = [one.score(one.encode_regions(pictures())[0], one.encode_sentences(SENTENCES)[0]) for one in (scan, caan)]
    scores = together.score(images, words)
    torch.testing.assert_close(scores, ((25 * own[0] - 3) + (4 * own[1] + 1)) / 2, atol=1e-4, rtol=1e-4)
    told = together.explain(images, words)
    assert told.contributions is not None
    torch.testing.assert_close(told.contributions.sum(2), scores, atol=1e-4, rtol=1e-4)
    assert together.calibration is not None
    assert together.calibration.text.slope + together.calibration.text.lead == pytest.approx(1)


@pytest.mark.parametrize("names", [("scan-t2i-avg", "caan"), ("scan-t2i-avg", "scan-i2t-avg")])
def test_an_ensemble_of_a_model_with_itself_is_as_sure_as_the_model(names: tuple[str, str]) -> None:
    same = calibration(20.0, -3.0, 5.0)
    first, second = (calibrated(matcher(name, 1), same) for name in names)
    together = combined([first, second]).calibration
    factor, shift = (25, -3) if "caan" in names else (1, 0)
    assert together is not None
    for side in ("text", "image"):
        found = getattr(together, side).probability(factor * 0.3 + shift, factor * 0.1, 2.0)
        assert float(found) == pytest.approx(float(getattr(same, side).probability(0.3, 0.1, 2.0)))


def test_names_and_digests_tell_ensembles_apart() -> None:
    one, other = matcher("scan-t2i-avg", 1), matcher("scan-i2t-avg", 2)
    together = combined([one, other])
    assert together.name == "scan-t2i-avg+scan-i2t-avg"
    assert together.extractor_digest == "detector"
    assert len({one.digest, other.digest, together.digest, combined([other, one]).digest}) == 4
    assert combined([one]) is one


def test_members_that_do_not_go_together_are_refused() -> None:
    one = matcher("scan-t2i-avg", 1)
    with pytest.raises(ValueError, match=r"^scan-t2i-avg\+caan .*different families.* not all are calibrated"):
        combined([one, matcher("caan", 2)])
    with pytest.raises(ValueError, match="different vocabularies"):
        combined([one, matcher("scan-i2t-avg", 2, vocabulary=("a", "cat"))])
    other = matcher("scan-i2t-avg", 2)
    other.extractor_digest = "another"
    with pytest.raises(ValueError, match="different detectors"):
        combined([one, other])
