"""Losses against their definitions in loops, two passes against one, and which weights learn from which loss."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from models.batches import Regions, Tokens
from models.matching.checkpoint import new_matcher
from models.matching.single_matcher import SingleMatcher
from models.matching.stage_one import StageOneConfig
from models.rerankers.encoders import EncoderConfig
from models.rerankers.registry import build
from models.text.vocabulary import SPECIALS, Vocabulary
from models.training.losses import (
    TripletScores,
    batch_losses,
    binary_loss,
    hardest_negatives,
    hardest_triplets,
    hinge_loss,
    info_nce_loss,
    uniform_hinge_loss,
)
from models.training.recipes import Recipe
from tests.support.encoded_images import encode_images

SAME = torch.eye(4, dtype=torch.bool)
SENTENCES = ["a dog", "grass runs", "a a dog"]


def test_hinge_counts_each_kind_of_negative() -> None:
    positive, wrong_image, wrong_text = torch.tensor([1.0, 0.5]), torch.tensor([0.9, 0.0]), torch.tensor([2.0, 0.4])
    # 0.2 + 0.9 - 1 = 0.1; 0; 0.2 + 2 - 1 = 1.2; 0.2 + 0.4 - 0.5 = 0.1
    assert hinge_loss(TripletScores(positive, wrong_image, wrong_text), margin=0.2).item() == pytest.approx(1.4)


def test_binary_loss_by_hand_and_finite_at_the_ends() -> None:
    pairs = TripletScores(torch.tensor([0.8]), torch.tensor([0.3]), torch.tensor([0.1]))
    assert binary_loss(pairs).item() == pytest.approx(-2 * math.log(0.8) - math.log(0.7) - math.log(0.9))
    ends = TripletScores(torch.zeros(1, requires_grad=True), torch.ones(1), torch.ones(1))
    assert binary_loss(ends).isfinite()


def test_the_hardest_negative_is_never_of_the_same_picture() -> None:
    scores = torch.tensor([[9.0, 8.0, 1.0], [8.0, 9.0, 2.0], [3.0, 4.0, 9.0]])
    same = torch.tensor([[1, 1, 0], [1, 1, 0], [0, 0, 1]], dtype=torch.bool)
    images, sentences = hardest_negatives(scores, same)
    assert images.tolist() == [2, 2, 1]
    assert sentences.tolist() == [2, 2, 1]


def test_uniform_hinge_counts_every_negative_of_another_picture() -> None:
    scores = torch.randn(4, 4)
    same = SAME.clone()
    same[0, 1] = same[1, 0] = True
    expected = 0.0
    for q in range(4):
        for k in range(4):
            if not same[q, k]:
                expected += sum(max(0.0, 0.2 + float(scores[q, k] - scores[own, own])) for own in (q, k))
    assert uniform_hinge_loss(scores, same, 0.2).item() == pytest.approx(float(expected), rel=1e-5)


def test_two_passes_give_the_loss_and_gradients_of_one() -> None:
    torch.manual_seed(0)
    reranker = build("scan-t2i-avg", EncoderConfig(num_words=9, feature_dim=6, word_dim=5, width=8)).double()
    regions = Regions(torch.randn(4, 3, 6).double(), torch.ones(4, 3, dtype=torch.bool))
    tokens = Tokens(torch.randint(1, 9, (4, 5)), torch.arange(5) < torch.tensor([5, 3, 4, 2])[:, None])

    def gradients(two_passes: bool) -> tuple[float, list[torch.Tensor]]:
        reranker.zero_grad()
        images, words = encode_images(reranker, regions), reranker.encode_texts(tokens)
        if two_passes:
            loss = hinge_loss(hardest_triplets(reranker, images, words, SAME), margin=0.5)
        else:
            scores = reranker.score(images, words)
            own = scores.diagonal()
            wrong = scores.masked_fill(SAME, -torch.inf)
            loss = (0.5 + wrong.amax(1) - own).clamp_min(0).sum() + (0.5 + wrong.amax(0) - own).clamp_min(0).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.item(), [p.grad.clone() for p in reranker.parameters() if p.grad is not None]

    (one, expected), (two, found) = gradients(False), gradients(True)
    assert one > 0
    assert two == pytest.approx(one, rel=1e-6)
    for left, right in zip(expected, found, strict=True):
        torch.testing.assert_close(left, right, atol=1e-9, rtol=1e-6)


def test_info_nce_leaves_out_other_captions_of_the_same_picture() -> None:
    scores = torch.randn(4, 4)
    same = SAME.clone()
    same[0, 1] = same[1, 0] = True
    expected = 0.0
    for matrix in (scores, scores.T):
        for row in range(4):
            kept = [k for k in range(4) if k == row or not same[row, k]]
            expected -= torch.log_softmax(matrix[row, kept] / 0.1, 0)[kept.index(row)].item() / 8
    assert info_nce_loss(scores, same, 0.1).item() == pytest.approx(expected, rel=1e-5)


def matcher() -> SingleMatcher:
    torch.manual_seed(0)
    encoders = EncoderConfig(num_words=8, feature_dim=3, word_dim=2, width=4)
    vocabulary = Vocabulary((*SPECIALS, "a", "dog", "grass", "runs"))
    return new_matcher("scan-t2i-avg", encoders, StageOneConfig(width=4, embed_dim=2), vocabulary, "x")


def losses(model: SingleMatcher, is_warmup: bool = False, **changes: Any) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    regions = Regions(torch.randn(3, 2, 3, generator=generator), torch.ones(3, 2, dtype=torch.bool)).to(model.device)
    recipe = Recipe(model="scan-t2i-avg", embed_dim=2, **changes)
    return batch_losses(model, regions, model.tokenize(SENTENCES).to(model.device), np.arange(3), recipe, is_warmup)


def test_stage_one_apart_teaches_its_own_layers_alone() -> None:
    for stage_one, encoders_learn in (("together", True), ("apart", False)):
        model = matcher()
        losses(model, stage_one=stage_one)["pooled"].backward()  # type: ignore[no-untyped-call]
        assert all(weight.grad is not None and weight.grad.any() for weight in model.pooled.parameters())
        assert any(weight.grad is not None for weight in model.reranker.parameters()) is encoders_learn


def test_stage_one_apart_has_the_same_loss() -> None:
    model = matcher()
    assert losses(model, stage_one="apart")["pooled"] == losses(model, stage_one="together")["pooled"]


def test_a_sum_is_as_many_means_as_there_are_pairs() -> None:
    model = matcher()
    torch.testing.assert_close(losses(model, reduction="sum")["ranking"], 3 * losses(model)["ranking"])


def test_all_negatives_cost_at_least_as_much_as_the_hardest() -> None:
    model = matcher()
    assert losses(model, negatives="all", margin=1.0)["ranking"] > losses(model, margin=1.0)["ranking"]


def test_info_nce_of_the_reranker_is_that_of_its_scores() -> None:
    model = matcher()
    generator = torch.Generator().manual_seed(1)
    regions = Regions(torch.randn(3, 2, 3, generator=generator), torch.ones(3, 2, dtype=torch.bool))
    reranker = model.reranker
    with torch.no_grad():
        scores = reranker.score(encode_images(reranker, regions), reranker.encode_texts(model.tokenize(SENTENCES)))
    expected = 0.0
    for matrix in (scores, scores.T):
        for row in range(3):
            expected -= math.log(math.exp(matrix[row, row] / 0.2) / sum(math.exp(x / 0.2) for x in matrix[row])) / 6
    found = losses(model.train(), loss="info_nce", score_temperature=0.2)["ranking"]
    assert found.item() == pytest.approx(float(expected), rel=1e-4)


@pytest.mark.parametrize("is_warmup", [True, False])
def test_the_reranker_waits_while_stage_one_warms_up(is_warmup: bool) -> None:
    assert ("ranking" in losses(matcher(), is_warmup=is_warmup)) is not is_warmup


def test_half_precision_is_for_gpus() -> None:
    model = matcher()
    assert torch.equal(losses(model, mixed_precision=True)["ranking"], losses(model, mixed_precision=False)["ranking"])


@pytest.mark.gpu
def test_half_precision_covers_the_encoders_and_leaves_scores_and_weights_alone() -> None:
    model = matcher().to("cuda")
    half, full = (losses(model, mixed_precision=on)["ranking"] for on in (True, False))
    assert half.dtype == full.dtype == torch.float32
    assert half != full
    torch.testing.assert_close(half, full, rtol=0.05, atol=0.05)
    assert all(weight.dtype == torch.float32 for weight in model.parameters())
