"""What every extractor's folder has: config.json, whose `kind` says which class reads the rest, and its identity."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

CONFIG_FILE = "config.json"
KIND = "kind"


class Unavailable(ValueError):
    """An extractor that cannot be made here; the message says what is missing and how to get it."""


def read_kind(folder: Path) -> str | None:
    """What kind of extractor `folder` holds, if it says."""
    kind: str | None = _read(folder).get(KIND)
    return kind


def read_config(folder: Path) -> dict[str, Any]:
    """The fields of the configuration in `folder`."""
    fields = _read(folder)
    fields.pop(KIND, None)
    return fields


def fingerprint(kind: str, settings: Mapping[str, Any], network: nn.Module) -> str:
    """The digest of an extractor: 32 hex digits over its kind, its settings and every number in its network."""
    state = hashlib.sha256(json.dumps([kind, settings], sort_keys=True).encode())
    for name, tensor in sorted(network.state_dict().items()):
        state.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        state.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return state.hexdigest()[:32]


def _read(folder: Path) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    return fields
