"""Which weights learn from which loss."""

from typing import Any

import numpy as np
import pytest
import torch

from models.batches import Regions
from models.matching.checkpoint import new_matcher
from models.matching.matcher import Matcher
from models.matching.stage_one import StageOneConfig
from models.rerankers.encoders import EncoderConfig
from models.text.vocabulary import SPECIALS, Vocabulary
from models.training.objective import batch_losses
from models.training.recipes import Recipe

SENTENCES = ["a dog", "grass runs", "a a dog"]


def matcher() -> Matcher:
    torch.manual_seed(0)
    encoders = EncoderConfig(num_words=8, feature_dim=3, word_dim=2, width=4)
    vocabulary = Vocabulary((*SPECIALS, "a", "dog", "grass", "runs"))
    return new_matcher("scan-t2i-avg", encoders, StageOneConfig(width=4, embed_dim=2), vocabulary, "x")


def losses(model: Matcher, warming: bool = False, **changes: Any) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    regions = Regions(torch.randn(3, 2, 3, generator=generator), torch.ones(3, 2, dtype=torch.bool)).to(model.device)
    recipe = Recipe(model="scan-t2i-avg", **changes)
    return batch_losses(model, regions, model.tokenize(SENTENCES).to(model.device), np.arange(3), recipe, warming)


def test_stage_one_apart_teaches_its_own_layers_alone() -> None:
    for stage_one, encoders_learn in (("together", True), ("apart", False)):
        model = matcher()
        losses(model, stage_one=stage_one)["pooled"].backward()
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


@pytest.mark.parametrize("warming", [True, False])
def test_the_reranker_waits_while_stage_one_warms_up(warming: bool) -> None:
    assert ("ranking" in losses(matcher(), warming=warming)) is not warming


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
