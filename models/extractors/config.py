"""The config.json in an extractor's folder, whose field "kind" names the class that reads the rest, and digests."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

CONFIG_FILE = "config.json"
KIND_FIELD = "kind"


class ExtractorUnavailable(ValueError):
    """An extractor cannot be loaded on this machine; the message says what is missing and how to get it."""


def read_kind(folder: Path) -> str | None:
    """The kind of the extractor in `folder`; None where its config.json names none."""
    kind: str | None = _read_json(folder).get(KIND_FIELD)
    return kind


def read_config(folder: Path) -> dict[str, Any]:
    """The fields of config.json in `folder`, without the kind."""
    fields = _read_json(folder)
    fields.pop(KIND_FIELD, None)
    return fields


def digest_of_extractor(kind: str, settings: Mapping[str, Any], network: nn.Module) -> str:
    """The digest of an extractor: 32 hex digits over its kind, its settings and every weight of its network."""
    state = hashlib.sha256(json.dumps([kind, settings], sort_keys=True).encode())
    for name, tensor in sorted(network.state_dict().items()):
        state.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        state.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return state.hexdigest()[:32]


def _read_json(folder: Path) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    return fields
