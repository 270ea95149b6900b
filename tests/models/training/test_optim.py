"""Learning rates step by step, and which gradients are clipped together."""

import math

import pytest
import torch
from torch.optim import SGD, Adadelta, AdamW

from models.matching.checkpoint import new_matcher
from models.matching.matcher import Matcher
from models.matching.stage_one import StageOneConfig
from models.rerankers.encoders import EncoderConfig
from models.text.vocabulary import SPECIALS, Vocabulary
from models.training.optim import build_optimizer, build_schedule, clip_gradients
from models.training.recipes import Recipe


def matcher() -> Matcher:
    encoders = EncoderConfig(num_words=5, feature_dim=3, word_dim=2, width=4)
    head = StageOneConfig(width=4, embed_dim=2)
    return new_matcher("scan-t2i-avg", encoders, head, Vocabulary((*SPECIALS, "a")), "x")


def rates(recipe: Recipe, steps_per_epoch: int) -> list[float]:
    """The learning rate of every step of a training."""
    model = matcher()
    optimizer = build_optimizer(recipe, model)
    schedule = build_schedule(recipe, optimizer, steps_per_epoch)
    found = []
    for _ in range(recipe.warmup_steps + recipe.epochs * steps_per_epoch):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return found


def test_the_rate_is_a_tenth_after_each_named_epoch() -> None:
    recipe = Recipe(model="scan-t2i-avg", warmup_steps=4, epochs=5, learning_rate=1.0, decay_after=(2, 3))
    expected = [1.0] * 4 + [0.1 ** ((epoch >= 2) + (epoch >= 3)) for epoch in range(5) for _ in range(3)]
    assert rates(recipe, steps_per_epoch=3) == pytest.approx(expected)


def test_without_named_epochs_the_rate_goes_up_once_and_down_to_nothing() -> None:
    found = rates(Recipe(model="scan-t2i-avg", warmup_steps=10, epochs=9, learning_rate=1.0), steps_per_epoch=10)
    peak = found.index(max(found))
    assert found[peak] == pytest.approx(1.0, abs=0.01)
    assert 0 < peak < 20
    assert found == [*sorted(found[:peak]), *sorted(found[peak:], reverse=True)]
    assert found[-1] < 0.01


@pytest.mark.parametrize(("optimizer", "kept"), [("sgd", True), ("adamw", False)])
def test_one_cycle_leaves_the_momentum_of_a_recipe_alone(optimizer: str, kept: bool) -> None:
    recipe = Recipe(model="x", optimizer=optimizer, momentum=0.5)  # type: ignore[arg-type]
    made = build_optimizer(recipe, matcher())
    schedule = build_schedule(recipe, made, 10)
    found = []
    for _ in range(9):
        (group,) = made.param_groups
        found.append(group["momentum"] if optimizer == "sgd" else group["betas"][0])
        made.step()
        schedule.step()
    assert (set(found) == {0.5}) is kept


def test_one_cycle_may_be_of_any_number_of_steps() -> None:
    for steps in range(1, 13):
        found = rates(Recipe(model="scan-t2i-avg", warmup_steps=0, epochs=1, learning_rate=1.0), steps)
        falling = found[1:] if steps > 8 else found  # from nine steps on it begins low
        assert falling == sorted(falling, reverse=True)
        assert min(found) > 0
        assert max(found) <= 1


def test_optimizers_go_by_their_names() -> None:
    adamw = build_optimizer(Recipe(model="x", learning_rate=0.5, weight_decay=0.1), matcher())
    assert isinstance(adamw, AdamW)
    assert (adamw.defaults["lr"], adamw.defaults["weight_decay"]) == (0.5, 0.1)
    assert isinstance(build_optimizer(Recipe(model="x", optimizer="adadelta", decay_after=(1,)), matcher()), Adadelta)
    sgd = build_optimizer(Recipe(model="x", optimizer="sgd", momentum=0.8), matcher())
    assert isinstance(sgd, SGD)
    assert (sgd.defaults["momentum"], sgd.defaults["nesterov"]) == (0.8, True)


@pytest.mark.parametrize(("stage_one", "parts"), [("together", 1), ("apart", 2)])
def test_a_gradient_is_limited_as_a_whole_or_apart(stage_one: str, parts: int) -> None:
    model = matcher()
    for weight in model.parameters():
        weight.grad = torch.ones_like(weight)
    clip_gradients(Recipe(model="x", clip=0.5, stage_one=stage_one, embed_dim=2), model)  # type: ignore[arg-type]
    length = math.sqrt(
        sum(weight.grad.square().sum().item() for weight in model.parameters() if weight.grad is not None)
    )
    assert length == pytest.approx(0.5 * math.sqrt(parts), rel=1e-4)
