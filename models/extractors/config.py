"""The config.json in an extractor's folder, whose field "kind" names the class that reads the rest, and digests."""

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast, get_type_hints

import torch
from torch import nn

from models.field_kinds import in_words, is_of_kind

Config = TypeVar("Config")

CONFIG_FILE = "config.json"
KIND_FIELD = "kind"


class ExtractorUnavailable(ValueError):
    """An extractor that cannot be loaded on this machine; the message says what is missing and how to get it."""


class BadExtractor(ValueError):
    """An invalid config.json in an extractor's folder; the message names the file and the fault."""


def read_kind(folder: Path) -> str | None:
    """The kind of the extractor in `folder`; None if its config.json names none. Raises BadExtractor if that file is
    invalid."""
    kind = _read_json(folder).get(KIND_FIELD)
    if kind is not None and not isinstance(kind, str):
        raise BadExtractor(f"{folder / CONFIG_FILE}: {KIND_FIELD!r} is a text, not {kind!r}")
    return kind


def read_config(folder: Path) -> dict[str, Any]:
    """The fields of config.json in `folder`, without the kind. Raises BadExtractor if that file is invalid."""
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


def config_of(kind: type[Config], folder: Path, fields: Mapping[str, Any]) -> Config:
    """The configuration `kind` with these fields of the config.json in `folder`, JSON lists as tuples.

    Raises BadExtractor for a field that is unknown, missing or invalid.
    """
    known = {field.name: field for field in dataclasses.fields(cast(Any, kind))}
    needed = {name for name, field in known.items() if field.default is field.default_factory is dataclasses.MISSING}
    file = folder / CONFIG_FILE
    if unknown := sorted(fields.keys() - known.keys()):
        raise BadExtractor(f"{file}: {unknown[0]!r} is no field of {kind.__name__}; there are {', '.join(known)}")
    if missing := sorted(needed - fields.keys()):
        raise BadExtractor(f"{file}: {missing[0]!r} is missing")
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
    kinds = get_type_hints(kind)
    for name, value in values.items():
        if not is_of_kind(value, kinds[name]):
            raise BadExtractor(f"{file}: {name!r} is {in_words(kinds[name])}, not {json.dumps(fields[name])}")
    try:
        return kind(**values)
    except ValueError as fault:
        raise BadExtractor(f"{file}: {fault}") from fault


def check_ranges(config: object, above_zero: Iterable[str], shares: Iterable[str] = ()) -> None:
    """Raise ValueError for the first field that is not above zero, or, for `shares`, not from 0 to 1."""
    for name in above_zero:
        if (value := getattr(config, name)) <= 0:
            raise ValueError(f"{name} is above 0, not {value}")
    for name in shares:
        if not 0 <= (value := getattr(config, name)) <= 1:
            raise ValueError(f"{name} is from 0 to 1, not {value}")


def _read_json(folder: Path) -> dict[str, Any]:
    file = folder / CONFIG_FILE
    try:
        fields = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as fault:
        raise BadExtractor(f"{file} is no JSON ({fault})") from fault
    if not isinstance(fields, dict):
        raise BadExtractor(f"{file} is no JSON object")
    return fields
