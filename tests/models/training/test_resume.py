"""Every model, killed in the middle of a training by SIGKILL, ends with the weights of one that was left alone."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from models.matching.matcher import Matcher
from models.training.checkpoints import read_checkpoint
from models.training.recipes import RECIPES
from models.training.stopping import StopSignals
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


def killed(name: str, out: Path, step: int, number: int = signal.SIGKILL) -> None:
    """Run until a signal after `step`, or else in a validation."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def log(entry: dict[str, Any]) -> None:
        if entry["step"] == step:
            os.kill(os.getpid(), number)

    training(name, out).run(log, lambda *_: os.kill(os.getpid(), number))


@pytest.mark.parametrize("name", TRIED)
def test_a_killed_training_ends_with_the_same_weights(name: str, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    whole: Matcher = training(name, tmp_path / "whole").run(lambda _: None)
    for step in KILLS:
        assert run_forked(killed, name, tmp_path / "killed", step) == -signal.SIGKILL
    resumed = training(name, tmp_path / "killed").run(lambda _: None)
    for weight, tensor in whole.state_dict().items():
        torch.testing.assert_close(resumed.state_dict()[weight], tensor, atol=0, rtol=0, msg=weight)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_training_is_saved_and_ends_with_the_same_weights(number: int, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    whole, run = training(TRIED[0], tmp_path / "whole"), tmp_path / "run"
    expected = whole.run(lambda _: None).state_dict()
    for step, saved in ((7, 7), (-1, whole.total_steps)):  # the second in its validation
        assert run_forked(killed, TRIED[0], run, step, number) == 1
        assert read_checkpoint(run / "last.pt")["step"] == saved
    resumed = training(TRIED[0], run)
    for weight, tensor in resumed.run(lambda _: None).state_dict().items():
        assert torch.equal(expected[weight], tensor), weight
    assert resumed.early_stopping == whole.early_stopping


def test_a_second_ctrl_c_does_not_wait() -> None:
    with StopSignals() as signals:
        signal.raise_signal(signal.SIGINT)
        assert signals.received == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
