"""Weights on disk: a folder of safetensors, JSON and a vocabulary; loading is strict and checks the digest."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from safetensors.torch import load_file, save, save_file
from torch import Tensor

from models.matching.calibration import Calibration
from models.matching.hubness import HubCorrected, packed, unpacked
from models.matching.matcher import Matcher
from models.matching.stage_one import Pooled, PooledConfig
from models.rerankers.encoders import EncoderConfig
from models.rerankers.registry import build
from models.text.vocabulary import Vocabulary

WEIGHTS = Path(__file__).parent.parent / "weights"
CALIBRATION = "calibration.json"  # this and the next are optional; part of the digest where they are there
BANK = "hubs.safetensors"
FORMAT = 1


class BadCheckpoint(ValueError):
    """A folder that is not what it says it is; the message names the file."""


def digest_of(folder: Path, names: tuple[str, ...]) -> str:
    """First 16 hex digits of the SHA-256 over the named files, in order."""
    state = hashlib.sha256()
    for name in names:
        state.update(hashlib.sha256((folder / name).read_bytes()).digest())
    return state.hexdigest()[:16]


def write_folder(
    folder: Path,
    config: Mapping[str, Any],
    state: Mapping[str, Tensor],
    extra: tuple[str, ...],
    dtype: torch.dtype = torch.float16,
) -> str:
    """Write weights and config.json; `extra` names files already there that belong to the digest. The digest."""
    folder.mkdir(parents=True, exist_ok=True)
    stored = {name: t.to(dtype) if t.is_floating_point() else t for name, t in state.items()}
    save_file({name: t.contiguous().cpu() for name, t in stored.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"format": FORMAT, **config}, indent=1) + "\n")
    digest = digest_of(folder, ("config.json", "model.safetensors", *extra))
    (folder / "digest").write_text(digest + "\n")
    return digest


def read_folder(folder: Path, extra: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, Tensor], str]:
    """Config, float32 tensors and digest; BadCheckpoint where a file is missing or not what was saved."""
    names = ("config.json", "model.safetensors", *extra)
    missing = [name for name in (*names, "digest") if not (folder / name).is_file()]
    if missing:
        raise BadCheckpoint(f"{folder} holds no checkpoint: {', '.join(missing)} missing")
    digest = digest_of(folder, names)
    stated = (folder / "digest").read_text().strip()
    if digest != stated:
        raise BadCheckpoint(f"{folder}: files give digest {digest}, not {stated}; the copy is damaged or edited")
    config = json.loads((folder / "config.json").read_text())
    if config.pop("format") != FORMAT:
        raise BadCheckpoint(f"{folder}: written in another format than {FORMAT}, by another release")
    state = load_file(folder / "model.safetensors")
    return config, {name: t.float() if t.is_floating_point() else t for name, t in state.items()}, digest


def save_matcher(
    matcher: Matcher, folder: Path, dtype: torch.dtype = torch.float16, vocabulary: bytes | None = None
) -> str:
    """Write a matcher, its weights as `dtype`; returns its digest. A card (card.md) is the caller's to add.

    `vocabulary` is the file to keep byte for byte; without it one is written from the words.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if vocabulary is None:
        matcher.vocabulary.save(folder / "vocabulary.json")
    else:
        (folder / "vocabulary.json").write_bytes(vocabulary)
    config = {
        "model": matcher.name,
        "options": asdict(matcher.reranker.config),
        "encoders": asdict(matcher.encoders),
        "pooled": asdict(matcher.pooled.config),
        "extractor": matcher.extractor_digest,
    }
    for name in (CALIBRATION, BANK):
        (folder / name).unlink(missing_ok=True)  # of other weights
    return write_folder(folder, config, matcher.state_dict(), ("vocabulary.json",), dtype)


def save_calibration(folder: Path, calibration: Calibration, bank: Float[Tensor, "C D"] | None = None) -> str:
    """Add the calibration of the weights in `folder`, or replace it; their new digest.

    `bank` is what `calibration.hubs` goes by, kept in 8 bits a number. Where this is cut short the folder is as it
    was, or loading it says that the digest is another.
    """
    if bank is None:
        (folder / BANK).unlink(missing_ok=True)
    else:
        _replace(folder / BANK, save(packed(bank)))
    text = json.dumps(calibration.as_dict(), indent=1, ensure_ascii=False) + "\n"
    _replace(folder / CALIBRATION, text.encode())
    digest = digest_of(folder, ("config.json", "model.safetensors", *_extra(folder)))
    _replace(folder / "digest", f"{digest}\n".encode())
    return digest


def _replace(path: Path, content: bytes) -> None:
    beside = path.with_name(f"{path.name}.new")
    beside.write_bytes(content)
    beside.replace(path)


def _extra(folder: Path) -> tuple[str, ...]:
    return ("vocabulary.json", *(name for name in (CALIBRATION, BANK) if (folder / name).is_file()))


def load_matcher(folder: Path, device: torch.device | str = "cpu") -> Matcher:
    """A matcher ready to score, calibrated where the folder says how. BadCheckpoint or UnknownModel where it cannot
    be one."""
    matcher = load_plain(folder, device)
    if not (folder / CALIBRATION).is_file():
        return matcher
    try:
        stored = json.loads((folder / CALIBRATION).read_text(encoding="utf-8"))
        bank = unpacked(load_file(folder / BANK)) if (folder / BANK).is_file() else None
        return calibrated(matcher, Calibration.of_dict(stored), bank)
    except ValueError as fault:
        raise BadCheckpoint(f"{folder / CALIBRATION}: {fault}") from fault


def calibrated(matcher: Matcher, calibration: Calibration, bank: Float[Tensor, "C D"] | None = None) -> Matcher:
    """The same matcher with its hubs corrected, and its scores' meaning beside them.

    ValueError where hubs are to be corrected and `bank` has not the width of the matcher's words.
    """
    reranker, hubs = matcher.reranker, calibration.hubs
    if hubs is not None:
        if bank is None or bank.shape[1:] != (matcher.word_dim,):
            raise ValueError(f"the hubs want a bank of vectors {matcher.word_dim} wide, in {BANK}")
        reranker = HubCorrected(reranker, matcher.pooled, bank.to(matcher.device), hubs)
    return Matcher(
        matcher.name,
        matcher.encoders,
        reranker,
        matcher.pooled,
        matcher.vocabulary,
        matcher.extractor_digest,
        matcher.digest,
        calibration,
    ).eval()


def load_plain(folder: Path, device: torch.device | str = "cpu") -> Matcher:
    """The trained matcher itself, without any calibration of it; otherwise as `load_matcher`."""
    config, state, digest = read_folder(folder, _extra(folder))
    matcher = new_matcher(
        config["model"],
        EncoderConfig(**config["encoders"]),
        PooledConfig(**config["pooled"]),
        Vocabulary.load(folder / "vocabulary.json"),
        config["extractor"],
        digest,
        config.get("options"),
    )
    matcher.load_state_dict(state, strict=True)
    return matcher.to(device).eval()


def new_matcher(
    name: str,
    encoders: EncoderConfig,
    pooled: PooledConfig,
    vocabulary: Vocabulary,
    extractor: str,
    digest: str = "",
    options: Mapping[str, Any] | None = None,
) -> Matcher:
    """A matcher with fresh weights; `options` change fields of the named model's config."""
    reranker = build(name, encoders, options)
    if not reranker.projects:
        pooled = replace(pooled, image_width=encoders.feature_dim)
    return Matcher(name, encoders, reranker, Pooled(pooled), vocabulary, extractor, digest)
