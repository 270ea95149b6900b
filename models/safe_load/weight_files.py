"""Weights as other people's training code left them: named tensors, read without running anything."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from models.safe_load.pickled_arrays import read_arrays
from models.safe_load.restricted_pickle import Refused, read_torch


def read_weights(file: Path) -> dict[str, Tensor]:
    """Name -> float32 tensor of a pickle of arrays (.pkl) or a file of torch.save, bare or under "model"."""
    stored = read_arrays(file) if file.suffix == ".pkl" else read_torch(file)
    if isinstance(stored, Mapping) and isinstance(stored.get("model"), Mapping):
        stored = stored["model"]
    if not isinstance(stored, Mapping):
        raise Refused(f"{file} holds a {type(stored).__name__}, not weights by name")
    return {str(name).removeprefix("module."): _floating(file, str(name), value) for name, value in stored.items()}


def misfits(found: Mapping[str, tuple[int, ...]], expected: Mapping[str, tuple[int, ...]]) -> list[str]:
    """In words, every name and shape in which weights are not those expected."""
    return [
        *(f"{name} is not known" for name in sorted(found.keys() - expected.keys())),
        *(f"{name} is missing" for name in sorted(expected.keys() - found.keys())),
        *(
            f"{name} is {found[name]}, not {expected[name]}"
            for name in sorted(found.keys() & expected.keys())
            if found[name] != expected[name]
        ),
    ]


def _floating(file: Path, name: str, value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        if not hasattr(value, "dtype"):
            raise Refused(f"{file}: {name} is {value!r}, not a tensor")
        value = torch.from_numpy(value)
    weight: Tensor = value.float()
    return weight
