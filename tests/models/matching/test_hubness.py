"""What hubs score with anything is taken off, and nothing else changes."""

import copy
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from models.batches import Regions, Rows, Words
from models.matching.calibration import Calibration, Evidence
from models.matching.checkpoint import BadCheckpoint, calibrated, load_matcher, save_calibration, save_matcher
from models.matching.hubness import Hubs, centres, packed, unpacked
from models.matching.matcher import Matcher
from models.rerankers.attention import l2_normalise
from models.rerankers.base import score_in_blocks, score_pairs
from tests.support.small_matchers import small_matcher

SENTENCES = ["red", "a blue thing", "green green black"]
NAMES = ["scan-t2i-avg", "scan-i2t-lse", "bfan-equal", "caan", "camp", "sman"]
HUBS = Hubs(pictures=0.5, sentences=0.3, best=2)
MEANS = Evidence(2.0, -1.0)
ALONE = torch.ones(1, 1, dtype=torch.bool)


def pictures(count: int = 5) -> Regions:
    generator = torch.Generator().manual_seed(2)
    mask = torch.arange(4) < (torch.arange(count) % 3 + 2)[:, None]
    return Regions(torch.randn(count, 4, 16, generator=generator), mask)


def bank(matcher: Matcher, count: int = 5) -> Tensor:
    return torch.randn(count, matcher.word_dim, generator=torch.Generator().manual_seed(4))


def corrected(name: str, hubs: Hubs = HUBS) -> Matcher:
    matcher = small_matcher(name)
    return calibrated(matcher, Calibration(text=MEANS, image=MEANS, hubs=hubs), bank(matcher))


def mean_of_two_best(values: list[float]) -> float:
    return sum(sorted(values)[-2:]) / 2


def encoded(matcher: Matcher, sentences: list[str] = SENTENCES) -> tuple[Rows, Words]:
    return matcher.encode_regions(pictures())[0], matcher.encode_sentences(sentences)[0]


@pytest.mark.parametrize("name", NAMES)
def test_how_near_both_come_to_the_bank_in_stage_one_is_taken_off(name: str) -> None:
    plain = small_matcher(name)
    seen, read = plain.encode_regions(pictures())[1], plain.encode_sentences(SENTENCES)[1]
    expected = plain.score(*encoded(plain))
    typical = [plain.pooled.embed_texts(Words(one[None, None], ALONE))[0].detach() for one in bank(plain)]
    for q in range(len(read)):
        for k in range(len(seen)):
            near = (mean_of_two_best([float(one @ other) for other in typical]) for one in (seen[k], read[q]))
            expected[q, k] -= 0.5 * next(near) + 0.3 * next(near)
    same_scores(corrected(name), expected)


@pytest.mark.parametrize("name", ["scan-i2t-lse", "caan", "camp"])
def test_or_how_high_both_score_with_it(name: str) -> None:
    plain = small_matcher(name)
    images, words = encoded(plain)
    expected = plain.score(images, words)
    for k in range(len(images)):
        scores = [float(plain.score(images[k : k + 1], Words(one[None, None], ALONE))) for one in bank(plain)]
        expected[:, k] -= 0.5 * mean_of_two_best(scores)
    for q in range(len(words)):
        typical = [plain.reranker.precompute(Regions(one[None, None], ALONE)) for one in bank(plain)]
        expected[q] -= 0.3 * mean_of_two_best([float(plain.score(one, words[q : q + 1])) for one in typical])
    same_scores(corrected(name, replace(HUBS, by="scores")), expected)


def same_scores(matcher: Matcher, expected: Tensor) -> None:
    images, words = encoded(matcher)
    torch.testing.assert_close(matcher.score(images, words), expected)
    torch.testing.assert_close(matcher.score(images, matcher.prepared(words)), expected)
    torch.testing.assert_close(score_in_blocks(matcher.reranker, images, words, 2, 1), expected)
    torch.testing.assert_close(score_pairs(matcher.reranker, images[:3], words), expected.diagonal())


def test_regions_that_stay_as_they_were_found_are_no_words() -> None:
    with pytest.raises(ValueError, match="by embeddings"):
        corrected("sman", replace(HUBS, by="scores"))
    corrected("sman", replace(HUBS, by="scores", sentences=0.0)).encode_regions(pictures())


@pytest.mark.parametrize("name", ["scan-t2i-avg", "scan-i2t-avg", "caan"])
def test_contributions_add_up_to_the_corrected_score(name: str) -> None:
    matcher, plain = corrected(name), small_matcher(name)
    images, words = encoded(matcher)
    told, before = matcher.explain(images, words), plain.explain(*encoded(plain))
    assert told.contributions is not None
    assert before.contributions is not None
    torch.testing.assert_close(told.contributions.sum(2), matcher.score(images, words))
    assert not told.contributions.masked_select(~words.mask[:, None]).any()
    fallen = (before.contributions - told.contributions)[0, :, : int(words.mask[0].sum())]
    torch.testing.assert_close(fallen, fallen[:, :1].expand_as(fallen))  # all words alike


def test_one_number_a_picture_is_all_that_a_record_gains() -> None:
    before = small_matcher("scan-t2i-avg").image_layout(4, 16)
    matcher = corrected("scan-t2i-avg")
    assert matcher.image_layout(4, 16) == {**before, "hubness": ()}
    images, words = encoded(matcher)
    arrays = {name: tensor.numpy() for name, tensor in images.tensors().items()}
    torch.testing.assert_close(matcher.score(matcher.images_from(arrays), words), matcher.score(images, words))


def test_pictures_encoded_alone_are_those_encoded_together() -> None:
    matcher = corrected("bfan-prob")
    together, words = encoded(matcher)
    alone = type(together).cat([matcher.encode_regions(pictures()[[k]])[0] for k in range(5)])
    torch.testing.assert_close(matcher.score(alone, words), matcher.score(together, words))


def test_the_bank_follows_the_weights() -> None:
    matcher = corrected("scan-t2i-avg")
    images, words = encoded(matcher)
    exact = copy.deepcopy(matcher.reranker).double()
    again = exact.precompute(matcher.reranker.project(pictures()).to(dtype=torch.float64))
    assert again.tensors()["hubness"].dtype == torch.float64
    scores = exact.score(again, words.to(dtype=torch.float64))
    np.testing.assert_allclose(scores.detach().numpy(), matcher.score(images, words).numpy(), atol=2e-3)


def test_a_picture_without_regions_is_no_hub() -> None:
    empty = Regions(torch.zeros(1, 4, 16), torch.zeros(1, 4, dtype=torch.bool))
    images, _ = corrected("scan-i2t-lse").encode_regions(empty)
    assert images.tensors()["hubness"].tolist() == [0.0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"pictures": -0.1}, "below 0"),
        ({"sentences": math.nan}, "below 0"),
        ({"best": 0}, "best"),
    ],
)
def test_a_correction_that_makes_no_sense_is_refused(options: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Hubs(**{"pictures": 0.5, "sentences": 0.5, "best": 2, **options})  # type: ignore[arg-type]


def test_centres_stand_in_the_middle_of_groups() -> None:
    """Three bundles of directions: from whatever vectors it starts, a centre ends in each."""
    generator = torch.Generator().manual_seed(0)
    middles = torch.eye(3, 8)
    vectors = l2_normalise(middles.repeat_interleave(50, 0) + 0.1 * torch.randn(150, 8, generator=generator))
    for seed in range(5):
        found = centres(vectors, 3, seed)
        if len({*(vectors @ found.T).argmax(1).tolist()}) == 3 and (found @ middles.T).max(0).values.min() > 0.9:
            break
    else:
        pytest.fail("no start found all three")
    for place in range(3):
        own = vectors[(vectors @ found.T).argmax(1) == place]
        torch.testing.assert_close(found[place], own.mean(0), atol=1e-5, rtol=0)
    with pytest.raises(ValueError, match="there are 150"):
        centres(vectors, 151)


@given(st.integers(0, 2**31), st.integers(1, 9))
def test_a_bank_in_eight_bits_is_nearly_what_it_was(seed: int, width: int) -> None:
    vectors = 3 * torch.randn(6, width, generator=torch.Generator().manual_seed(seed))
    again = unpacked(packed(vectors))
    assert ((again - vectors).abs() <= vectors.abs().amax(1, keepdim=True) / 253).all()
    torch.testing.assert_close(unpacked(packed(again)), again)  # once is enough


def test_hubs_without_their_bank_are_refused_and_a_damaged_bank_is_noticed(tmp_path: Path) -> None:
    matcher = small_matcher("scan-t2i-avg")
    save_matcher(matcher, tmp_path)
    calibration = Calibration(text=MEANS, image=MEANS, hubs=HUBS)
    assert save_calibration(tmp_path, calibration, bank(matcher)) == load_matcher(tmp_path).digest
    kept = (tmp_path / "hubs.safetensors").read_bytes()
    (tmp_path / "hubs.safetensors").write_bytes(kept[:-1] + bytes([kept[-1] ^ 1]))
    with pytest.raises(BadCheckpoint, match="damaged or edited"):
        load_matcher(tmp_path)
    save_calibration(tmp_path, calibration)
    with pytest.raises(BadCheckpoint, match=r"hubs\.safetensors"):
        load_matcher(tmp_path)
    save_calibration(tmp_path, calibration, bank(matcher)[:, :3])
    with pytest.raises(BadCheckpoint, match="wide"):
        load_matcher(tmp_path)
    save_matcher(matcher, tmp_path)
    assert not (tmp_path / "hubs.safetensors").exists()
