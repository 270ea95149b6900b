"""What hubs score with anything is taken off, and nothing else changes."""

import copy

import numpy as np
import pytest
import torch

from models.base import score_in_blocks, score_pairs
from models.hubs import HubCorrected, Hubs
from models.matcher import Matcher
from models.rows import Regions, Rows, Words
from tests.small import small_matcher

BANK = ("red", "blue and red", "a green thing", "white black", "yellow")
SENTENCES = ["red", "a blue thing", "green green black"]
NAMES = ["scan-t2i-avg", "scan-i2t-lse", "bfan-equal", "caan", "camp", "sman"]


def pictures(count: int = 5) -> Regions:
    generator = torch.Generator().manual_seed(2)
    mask = torch.arange(4) < (torch.arange(count) % 3 + 2)[:, None]
    return Regions(torch.randn(count, 4, 16, generator=generator), mask)


def corrected(matcher: Matcher, hubs: Hubs) -> Matcher:
    matcher.reranker = HubCorrected(matcher.reranker, matcher.tokenize(hubs.bank), hubs)
    return matcher.eval()


def encoded(matcher: Matcher, sentences: list[str] = SENTENCES) -> tuple[Rows, Words]:
    return matcher.encode_regions(pictures())[0], matcher.encode_sentences(sentences)[0]


@pytest.mark.parametrize("name", NAMES)
def test_a_share_of_the_best_scores_with_the_bank_is_taken_off(name: str) -> None:
    plain = small_matcher(name)
    images, words = encoded(plain)
    scores, bank = plain.score(images, words), plain.score(images, encoded(plain, list(BANK))[1])
    expected = scores.clone()
    for k in range(len(images)):
        best = sorted((float(bank[q, k]) for q in range(len(BANK))), reverse=True)[:2]
        expected[:, k] -= 0.5 * sum(best) / 2
    matcher = corrected(small_matcher(name), Hubs(share=0.5, best=2, bank=BANK))
    images, words = encoded(matcher)
    torch.testing.assert_close(matcher.score(images, words), expected)
    torch.testing.assert_close(score_in_blocks(matcher.reranker, images, words, 2, 1), expected)
    torch.testing.assert_close(score_pairs(matcher.reranker, images[:3], words), expected.diagonal())


@pytest.mark.parametrize("name", ["scan-t2i-avg", "scan-i2t-avg", "caan"])
def test_contributions_add_up_to_the_corrected_score(name: str) -> None:
    matcher = corrected(small_matcher(name), Hubs(share=1.0, best=1, bank=BANK))
    images, words = encoded(matcher)
    told = matcher.explain(images, words)
    assert told.contributions is not None
    torch.testing.assert_close(told.contributions.sum(2), matcher.score(images, words))
    assert not told.contributions.masked_select(~words.mask[:, None]).any()
    plain = small_matcher(name)
    before = plain.explain(*encoded(plain))
    assert before.contributions is not None
    fallen = (before.contributions - told.contributions)[0, :, : int(words.mask[0].sum())]
    torch.testing.assert_close(fallen, fallen[:, :1].expand_as(fallen))  # all words alike


def test_one_number_a_picture_is_all_that_a_record_gains() -> None:
    before = small_matcher("scan-t2i-avg").image_layout(4, 16)
    matcher = corrected(small_matcher("scan-t2i-avg"), Hubs(share=0.5, best=2, bank=BANK))
    assert matcher.image_layout(4, 16) == {**before, "hubness": ()}
    images, words = encoded(matcher)
    arrays = {name: tensor.numpy() for name, tensor in images.tensors().items()}
    torch.testing.assert_close(matcher.score(matcher.images_from(arrays), words), matcher.score(images, words))


def test_pictures_encoded_alone_are_those_encoded_together() -> None:
    matcher = corrected(small_matcher("bfan-prob"), Hubs(share=0.5, best=3, bank=BANK))
    together, words = encoded(matcher)
    alone = type(together).cat([matcher.encode_regions(pictures()[[k]])[0] for k in range(5)])
    torch.testing.assert_close(matcher.score(alone, words), matcher.score(together, words))


def test_the_bank_follows_the_weights() -> None:
    matcher = corrected(small_matcher("scan-t2i-avg"), Hubs(share=0.5, best=2, bank=BANK))
    images, words = encoded(matcher)
    exact = copy.deepcopy(matcher.reranker).double()
    regions = matcher.reranker.project(pictures()).to(dtype=torch.float64)
    again = exact.precompute(regions)
    assert again.tensors()["hubness"].dtype == torch.float64
    scores = exact.score(again, words.to(dtype=torch.float64))
    np.testing.assert_allclose(scores.detach().numpy(), matcher.score(images, words).numpy(), atol=2e-3)


def test_a_picture_without_regions_is_left_alone() -> None:
    matcher = corrected(small_matcher("scan-i2t-lse"), Hubs(share=0.5, best=2, bank=BANK))
    empty = Regions(torch.zeros(1, 4, 16), torch.zeros(1, 4, dtype=torch.bool))
    images, _ = matcher.encode_regions(empty)
    assert images.tensors()["hubness"].isfinite().all()


@pytest.mark.parametrize(
    ("options", "words"),
    [({"share": 0.0}, "share"), ({"share": 1.5}, "share"), ({"best": 0}, "best"), ({"best": 6}, "5")],
)
def test_a_correction_that_makes_no_sense_is_refused(options: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Hubs(**{"share": 0.5, "best": 2, "bank": BANK, **options})  # type: ignore[arg-type]
