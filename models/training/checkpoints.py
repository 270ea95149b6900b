"""Checkpoints of trainings: one file from which a killed training resumes, with the same result bit for bit."""

import io
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol, runtime_checkable
from zipfile import BadZipFile, ZipFile

import torch

from models.safe_load.restricted_pickle import read_torch_file
from models.whole_files import write_whole

CHECKPOINT_FORMAT = 1
CHECKPOINT_FILE = "checkpoint.pt"


class UnusableCheckpoint(ValueError):
    """A checkpoint that cannot be resumed: it is damaged, or belongs to another recipe, input or release."""


@runtime_checkable
class Stateful(Protocol):
    """A part of a training that has a state: a module, an optimizer, a schedule."""

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state_dict: dict[str, Any], /) -> object: ...


@dataclass(frozen=True)
class TrainingCheckpoint:
    """The file with everything that the rest of a training depends on.

    It holds the states of its parts, its recipe, the number of steps done and the random state of torch.
    """

    path: Path
    recipe: Any
    """A dataclass; a checkpoint of another recipe is refused."""
    parts: Mapping[str, Stateful]
    """Name -> object whose state is saved and restored."""
    learns_from: Mapping[str, str] = field(default_factory=dict)
    """Kind of input -> its digest; a checkpoint with other input is refused."""
    moved_end: Callable[[Any, int], Any] = lambda recipe, step: recipe
    """The recipe to compare with, for that of the file and its steps. ValueError: its reason to refuse them."""

    def save(self, step: int) -> None:
        """Write the state after `step` steps; the file is replaced atomically."""
        uses_gpu = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        state = {
            "format": CHECKPOINT_FORMAT,
            "recipe": asdict(self.recipe),
            "learns_from": dict(self.learns_from),
            "step": step,
            "parts": {name: part.state_dict() for name, part in self.parts.items()},
            "random": torch.get_rng_state(),
            "gpu_random": torch.cuda.get_rng_state_all() if uses_gpu else [],
        }
        content = io.BytesIO()  # not into the file: on a full disk, torch's message names neither disk nor file
        torch.save(state, content)
        write_whole(self.path, content.getvalue())

    def resume(self) -> int | None:
        """Restore all parts and the random state; returns the number of steps done, None if there is no file yet.

        Raises UnusableCheckpoint if the file is damaged, or has another recipe or other input.
        """
        if not self.path.is_file():
            return None
        state = read_checkpoint(self.path)
        self._check_recipe(state["recipe"], state["step"])
        self._check_input(state["learns_from"])
        for name, part in self.parts.items():
            try:
                part.load_state_dict(state["parts"][name])
            except (RuntimeError, ValueError) as fault:  # other layers, or another number of parameters
                raise UnusableCheckpoint(
                    f"{self.path.parent} holds a training whose {name} has other parts than that of this release;"
                    " choose another folder"
                ) from fault
        torch.set_rng_state(state["random"])
        for device, gpu_state in enumerate(state["gpu_random"][: torch.cuda.device_count()]):
            torch.cuda.set_rng_state(gpu_state, device)
        step: int = state["step"]
        return step

    def _check_recipe(self, stored: dict[str, Any], step: int) -> None:
        """Raise UnusableCheckpoint for another recipe; fields younger than the file have their defaults there."""
        refusal = f"{self.path.parent} holds a training of another recipe"
        try:
            recipe = type(self.recipe)(**stored)
        except (TypeError, ValueError) as problem:
            raise UnusableCheckpoint(f"{refusal} ({problem}); choose another folder") from problem
        try:
            recipe = self.moved_end(recipe, step)
        except ValueError as problem:
            raise UnusableCheckpoint(
                f"{self.path.parent} holds a training whose end cannot be moved: {problem}"
            ) from None
        pairs = {each.name: (getattr(recipe, each.name), getattr(self.recipe, each.name)) for each in fields(recipe)}
        changed = [f"{name} was {before!r}, now {now!r}" for name, (before, now) in pairs.items() if before != now]
        if changed:
            raise UnusableCheckpoint(f"{refusal} ({', '.join(changed)}); choose another folder")

    def _check_input(self, stored: dict[str, str]) -> None:
        for name, digest in self.learns_from.items():
            if name not in stored:
                raise UnusableCheckpoint(
                    f"{self.path.parent} was begun by a release that did not record its {name}, which may be others"
                    " now; choose another folder"
                )
            if stored[name] != digest:
                raise UnusableCheckpoint(
                    f"{self.path.parent} was begun on other {name}, of {stored[name]}; choose another folder"
                )


def read_checkpoint(path: Path) -> dict[str, Any]:
    """The state in a checkpoint, on the CPU, with a state dict for each of its "parts". No code in it is executed.

    Raises FileNotFoundError if there is none, UnusableCheckpoint if it is damaged or of another release.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path.parent} holds no {path.name} of a training")
    if not _is_whole(path):
        raise UnusableCheckpoint(f"{path} is damaged: move it away to begin anew, what else is in {path.parent} stays")
    state: dict[str, Any] = read_torch_file(path)
    if state.get("format") != CHECKPOINT_FORMAT:
        raise UnusableCheckpoint(f"{path} was written by another release; choose another folder")
    return state


def _is_whole(path: Path) -> bool:
    """Whether a file is an undamaged archive; PyTorch does not verify its checksums."""
    try:
        with ZipFile(path) as archive:
            return archive.testzip() is None
    except (BadZipFile, EOFError, RuntimeError, ValueError, struct.error, zlib.error):
        return False
