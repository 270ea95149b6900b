"""Every model, killed in the middle of a training by SIGKILL, ends with the weights of one that was left alone."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from models.matching.matcher import Matcher
from models.training.recipes import RECIPES
from models.training.trainer import Training
from tests.models.training.test_trainer import TRIED
from tests.support.forked import run_forked
from tests.support.small_trainings import small, synthetic

KILLS = (7, 13)  # steps, neither of them saved

pytestmark = pytest.mark.slow


def training(name: str, out: Path) -> Training:
    """A short training with all that is random in it: drop-out, and batches in another order every epoch."""
    recipe, initial = RECIPES[name], None
    changes: dict[str, Any] = {"feature_dropout": 0.2, "save_every": 5, "width": 16, "validate_images": 8}
    if recipe.starts_from:
        initial = training(recipe.starts_from, out / "never").matcher
    warmup = 0 if recipe.starts_from else 4
    data = synthetic(30)
    return Training(small(recipe, **changes, batch=6, epochs=1, warmup_steps=warmup), data, data, out, initial=initial)


def killed(name: str, out: Path, step: int) -> None:
    """Run until `step`, and no further."""
    torch.set_num_threads(1)

    def log(entry: dict[str, Any]) -> None:
        if entry["step"] == step:
            os.kill(os.getpid(), signal.SIGKILL)

    training(name, out).run(log)


@pytest.mark.parametrize("name", TRIED)
def test_a_killed_training_ends_with_the_same_weights(name: str, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    whole: Matcher = training(name, tmp_path / "whole").run(lambda _: None)
    for step in KILLS:
        assert run_forked(killed, name, tmp_path / "killed", step) == -signal.SIGKILL
    resumed = training(name, tmp_path / "killed").run(lambda _: None)
    for weight, tensor in whole.state_dict().items():
        torch.testing.assert_close(resumed.state_dict()[weight], tensor, atol=0, rtol=0, msg=weight)
