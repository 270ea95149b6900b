"""Nothing is left on the CPU where a model runs on another device: every path of every matcher, without a GPU."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from models.batches import Regions, Tokens, Words
from models.bench.inputs import Sizes, random_regions, random_reranker, random_words
from models.bench.literal import CaptionLoop
from models.matching.calibration import Calibration
from models.matching.hubness import HubnessConfig
from models.matching.hubness_banks import HubnessBanks, VectorBank
from models.matching.log_odds import LogOddsModel
from models.matching.single_matcher import SingleMatcher
from models.rerankers.blocks import score_in_blocks
from models.rerankers.registry import RERANKERS
from models.training.losses import hardest_triplets, hinge_loss
from tests.support.fakes import D
from tests.support.pretend_accelerator import DEVICE, Pretended, move, pretended_device, unpretended
from tests.support.small_matchers import small_matcher

SENTENCES = ["red green blue", "white"]
# SMAN reads regions by a GRU that transposes tensors in place, which those that pretend cannot follow.
NAMES = sorted(set(RERANKERS) - {"sman"})


def pictures() -> Regions:
    mask = torch.arange(5) < torch.tensor([5, 3, 1, 4])[:, None]
    return Regions(torch.randn(4, 5, D, generator=torch.Generator().manual_seed(2)), mask)


def stored(images: Any) -> dict[str, Any]:
    """Records of pictures as a view gives them."""
    return {name: unpretended(tensor).numpy() for name, tensor in images.tensors().items()}


def all_paths(matcher: SingleMatcher, device: torch.device) -> list[torch.Tensor]:
    """Encoding, what is stored, scoring and explaining, as a service does it; what comes out, on any device."""
    images, embeddings = matcher.encode_regions(pictures())
    texts, text_embeddings = matcher.encode_sentences(SENTENCES)
    read = matcher.images_from(stored(images))
    assert {tensor.device.type for tensor in read.tensors().values()} == {device.type}
    scores = [matcher.score(read, texts), matcher.score_in_blocks(read, texts)]
    explanation = matcher.explain(read, texts)
    further = [explanation.contributions, explanation.shares]
    return [embeddings, text_embeddings, *scores, *(one for one in further if one is not None)]


def corrected(name: str) -> SingleMatcher:
    """A matcher with a hubness correction and stage one's cosine as a part of its score."""
    hubness = HubnessConfig(image_weight=0.4, text_weight=0.2, neighbours=2, similarity="scores")
    banks = HubnessBanks(VectorBank.quantise(torch.randn(6, 1, 8, generator=torch.Generator().manual_seed(1))))
    line = LogOddsModel(3.0, -1.0)
    calibration = replace(Calibration(text=line, image=line), hubness=hubness, cosine_weight=0.8)
    return small_matcher(name, 1).with_calibration(calibration, banks)


def check_same(matcher: SingleMatcher) -> None:
    expected = all_paths(matcher, torch.device("cpu"))
    move(matcher)
    with pretended_device() as device:
        found = all_paths(matcher, device)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(unpretended(one), other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_a_matcher_leaves_nothing_behind(name: str) -> None:
    check_same(small_matcher(name))


@pytest.mark.parametrize("name", ["bfan-equal", "scan-i2t-avg", "caan"])
def test_a_corrected_matcher_leaves_nothing_behind(name: str) -> None:
    check_same(corrected(name))


@pytest.mark.parametrize("name", NAMES)
def test_a_training_step_leaves_nothing_behind(name: str) -> None:
    reranker, sizes = random_reranker(name, 8), Sizes(pairs=4, regions=3, words=3, width=8)
    move(reranker)
    with pretended_device() as device:
        vectors = random_regions(sizes.pairs, sizes.regions, sizes.width).vectors.to(device).requires_grad_()
        words = random_words(torch.full((sizes.pairs,), sizes.words), sizes.width).to(device)
        regions = Regions(vectors, torch.ones(vectors.shape[:2], dtype=torch.bool, device=device))
        same = torch.eye(sizes.pairs, dtype=torch.bool, device=device)
        loss = hinge_loss(hardest_triplets(reranker, reranker.precompute(regions), words, same), 0.2)
        loss.backward()  # type: ignore[no-untyped-call]
        assert vectors.grad is not None
        assert vectors.grad.device.type == DEVICE.type
        assert unpretended(vectors.grad).isfinite().all()


@pytest.mark.parametrize("name", ["scan-t2i-avg", "bfan-prob", "caan", "camp", "summax-i2t"])
def test_what_is_benchmarked_leaves_nothing_behind(name: str) -> None:
    reranker, words = random_reranker(name, 8), random_words(torch.tensor([3, 5]), 8)
    projected = random_regions(3, 4, 8)
    expected = score_in_blocks(reranker, reranker.precompute(projected), words)
    move(reranker)
    with pretended_device() as device, torch.no_grad():
        there, asked = projected.to(device), words.to(device)
        scores = score_in_blocks(reranker, reranker.precompute(there), asked)
        literal = CaptionLoop(reranker, there).score(asked)
    torch.testing.assert_close(unpretended(scores), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(unpretended(literal), expected, rtol=1e-3, atol=1e-4)


def test_what_is_left_behind_is_found() -> None:
    here = torch.ones(3)
    with pretended_device() as device:
        there = torch.ones(3, device=device)
        assert isinstance(there + 1, Pretended)
        assert isinstance(there * torch.tensor(2.0), Pretended)  # a number may come from anywhere
        assert torch.equal((there + there).cpu(), 2 * here)
        with pytest.raises(RuntimeError, match="same device"):
            there + here
        with pytest.raises(RuntimeError, match="same device"):
            here[there.long()]
        with pytest.raises((TypeError, RuntimeError)):
            there.numpy()
        there[torch.tensor([0, 1])] = 5.0
        assert there.cpu().tolist() == [5.0, 5.0, 1.0]


def test_words_that_are_read_go_to_the_models_device() -> None:
    matcher = small_matcher("scan-t2i-avg")
    move(matcher)
    with pretended_device():
        tokens = matcher.tokenize(SENTENCES)
        assert isinstance(tokens, Tokens | Words)
        assert tokens.mask.device.type == "cpu"
        texts, _ = matcher.encode_sentences(SENTENCES)
        assert texts.vectors.device.type == DEVICE.type
        assert np.isfinite(unpretended(texts.vectors).numpy()).all()
