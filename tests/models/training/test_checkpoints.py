"""A training's checkpoint: what comes back from it, and which are refused."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from models.training.checkpoints import Stateful, TrainingCheckpoint, read_checkpoint


@dataclass(frozen=True, kw_only=True)
class Hyperparameters:
    steps: int
    sides: tuple[float, float] = (1.0, 2.0)
    rate: float = 0.1


RECIPE = Hyperparameters(steps=3)


class Run:
    """Weights and an optimizer with a state, in a folder."""

    def __init__(self, folder: Path, recipe: Hyperparameters = RECIPE, **learns_from: str) -> None:
        torch.manual_seed(0)
        self.layer = nn.Linear(2, 2)
        self.optimizer = torch.optim.Adam(self.layer.parameters())
        parts: dict[str, Stateful] = {"layer": self.layer, "optimizer": self.optimizer}
        self.checkpoint = TrainingCheckpoint(folder / "checkpoint.pt", recipe, parts, learns_from)

    def step(self) -> None:
        """A step that depends on weights, on the optimizer's moments and on the random state."""
        self.optimizer.zero_grad()
        self.layer(torch.randn(4, 2)).square().sum().backward()
        self.optimizer.step()

    def weights(self) -> torch.Tensor:
        return torch.cat([weight.detach().flatten().clone() for weight in self.layer.parameters()])


def test_a_resumed_run_takes_the_same_steps(tmp_path: Path) -> None:
    first = Run(tmp_path)
    assert first.checkpoint.resume() is None
    first.step()
    first.checkpoint.save(1)
    first.step()
    second = Run(tmp_path)
    torch.randn(7)
    assert second.checkpoint.resume() == 1
    assert not torch.equal(first.weights(), second.weights())
    second.step()
    assert torch.equal(first.weights(), second.weights())


def test_another_recipe_is_refused_by_its_fields(tmp_path: Path) -> None:
    Run(tmp_path).checkpoint.save(1)
    other = Run(tmp_path, Hyperparameters(steps=4, sides=(1.0, 3.0)))
    with pytest.raises(
        ValueError, match=r"recipe \(steps was 3, now 4, sides was \(1\.0, 2\.0\), now \(1\.0, 3\.0\)\)"
    ):
        other.checkpoint.resume()


def rewrite(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    state = torch.load(path, weights_only=True)
    change(state)
    torch.save(state, path)


def test_a_field_that_a_recipe_has_gained_had_its_default_and_one_that_it_lost_makes_another_recipe(
    tmp_path: Path,
) -> None:
    Run(tmp_path).checkpoint.save(1)
    rewrite(tmp_path / "checkpoint.pt", lambda state: state["recipe"].pop("rate"))
    assert Run(tmp_path).checkpoint.resume() == 1
    with pytest.raises(ValueError, match=r"another recipe .*rate was 0\.1, now 0\.2"):
        Run(tmp_path, Hyperparameters(steps=3, rate=0.2)).checkpoint.resume()
    rewrite(tmp_path / "checkpoint.pt", lambda state: state["recipe"].update(momentum=0.9))
    with pytest.raises(ValueError, match=r"another recipe .*momentum"):
        Run(tmp_path).checkpoint.resume()


def test_other_input_is_refused(tmp_path: Path) -> None:
    Run(tmp_path, captions="abc").checkpoint.save(1)
    assert Run(tmp_path, captions="abc").checkpoint.resume() == 1
    with pytest.raises(ValueError, match="was begun on other captions, of abc; choose another folder"):
        Run(tmp_path, captions="abd").checkpoint.resume()
    with pytest.raises(ValueError, match="did not record its vectors, which may be others now; choose another folder"):
        Run(tmp_path, captions="abc", vectors="x").checkpoint.resume()


def test_a_save_that_is_cut_short_leaves_the_old_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(tmp_path)
    run.checkpoint.save(1)

    def killed(state: object, file: Any) -> None:
        file.write(b"PK")
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(torch, "save", killed)
        with pytest.raises(KeyboardInterrupt):
            run.checkpoint.save(2)
    assert Run(tmp_path).checkpoint.resume() == 1


def test_a_damaged_file_and_one_of_another_release_say_so(tmp_path: Path) -> None:
    Run(tmp_path).checkpoint.save(1)
    whole = (tmp_path / "checkpoint.pt").read_bytes()
    weights = np.ascontiguousarray(Run(tmp_path).weights()[:4].numpy()).tobytes()
    assert whole.count(weights) == 1
    for damaged in (b"", whole[:500], whole.replace(weights, weights[::-1])):
        (tmp_path / "checkpoint.pt").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"checkpoint\.pt is damaged"):
            Run(tmp_path).checkpoint.resume()
    torch.save({"step": 1, "recipe": {"steps": 3}}, tmp_path / "checkpoint.pt")
    with pytest.raises(ValueError, match="written by another release"):
        Run(tmp_path).checkpoint.resume()


def test_a_payload_in_a_checkpoint_does_not_run(tmp_path: Path) -> None:
    class Payload:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "owned"),)

    torch.save({"format": 1, "step": Payload()}, tmp_path / "checkpoint.pt")
    with pytest.raises(ValueError, match=r"names \w+\.mkdir"):
        read_checkpoint(tmp_path / "checkpoint.pt")
    assert not (tmp_path / "owned").exists()


def test_a_folder_without_a_checkpoint_has_nothing_to_start_from(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"holds no checkpoint\.pt"):
        read_checkpoint(tmp_path / "checkpoint.pt")
