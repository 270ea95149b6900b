"""Weights from third-party training code: named tensors, read without executing anything."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from models.safe_load.restricted_pickle import RefusedFile, read_pickled_arrays, read_torch_file


def read_weights(file: Path) -> dict[str, Tensor]:
    """Name -> float32 tensor of a pickle of arrays (.pkl) or a file of `torch.save`, bare or under "model".

    The prefix "module." of DataParallel is removed. Raises RefusedFile for anything but named tensors.
    """
    stored = read_pickled_arrays(file) if file.suffix == ".pkl" else read_torch_file(file)
    if isinstance(stored, Mapping) and isinstance(stored.get("model"), Mapping):
        stored = stored["model"]
    if not isinstance(stored, Mapping):
        raise RefusedFile(f"{file} holds a {type(stored).__name__}, not weights by name")
    return {str(name).removeprefix("module."): _float_tensor(file, str(name), value) for name, value in stored.items()}


def read_safetensors(file: Path) -> dict[str, Tensor]:
    """Name -> tensor of a safetensors file. Raises RefusedFile for any other."""
    try:
        return load_file(file)
    except SafetensorError as fault:
        raise RefusedFile(f"{file} is no whole file of safetensors ({fault})") from fault


def weight_mismatches(found: Mapping[str, tuple[int, ...]], expected: Mapping[str, tuple[int, ...]]) -> list[str]:
    """A message for every weight (name -> shape) that is unknown, missing or of an unexpected shape."""
    return [
        *(f"{name} is not known" for name in sorted(found.keys() - expected.keys())),
        *(f"{name} is missing" for name in sorted(expected.keys() - found.keys())),
        *(
            f"{name} is {found[name]}, not {expected[name]}"
            for name in sorted(found.keys() & expected.keys())
            if found[name] != expected[name]
        ),
    ]


def load_weights(model: nn.Module, stored: Mapping[str, Tensor], owner: str) -> None:
    """Load all the weights of a network. Raises RefusedFile, which names those that do not fit the network `owner`."""
    shapes = [{name: tuple(tensor.shape) for name, tensor in each.items()} for each in (stored, model.state_dict())]
    if wrong := weight_mismatches(*shapes):
        raise RefusedFile(f"the weights are not those of {owner}: {'; '.join(wrong)}")
    model.load_state_dict(stored, strict=True)


def _float_tensor(file: Path, name: str, value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        if not hasattr(value, "dtype"):
            raise RefusedFile(f"{file}: {name} is {value!r}, not a tensor")
        value = torch.from_numpy(value)
    weight: Tensor = value.float()
    return weight
