"""Matchers on disk: a folder of safetensors, JSON and a vocabulary. Loading is strict and checks the digest.

config.json          the model's name, its options, widths and the digest of the extractor it was trained with
model.safetensors    weights of the reranker and of the stage-one head
vocabulary.json      words and their ids
calibration.json     what the scores mean and how their hubness is corrected; not in every folder
hubs.safetensors     the bank of typical sentences that the hubness correction goes by; not in every folder
digest               first 16 hex digits of a SHA-256 over the files above
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save, save_file

from models.matching.calibration import Calibration
from models.matching.hubness import SentenceBank
from models.matching.matcher import SingleMatcher
from models.matching.stage_one import StageOneConfig, StageOneHead
from models.rerankers.base import stored_options
from models.rerankers.encoders import EncoderConfig
from models.rerankers.registry import build
from models.text.vocabulary import Vocabulary

WEIGHTS = Path(__file__).parent.parent / "weights"
CONFIG, TENSORS, VOCABULARY, DIGEST = "config.json", "model.safetensors", "vocabulary.json", "digest"
CALIBRATION, BANK = "calibration.json", "hubs.safetensors"
FOLDER_FORMAT = 1


class BadCheckpoint(ValueError):
    """A folder that is not what it says it is; the message names the file."""


def digest_of(folder: Path, names: tuple[str, ...]) -> str:
    """First 16 hex digits of the SHA-256 over the named files, in order."""
    state = hashlib.sha256()
    for name in names:
        state.update(hashlib.sha256((folder / name).read_bytes()).digest())
    return state.hexdigest()[:16]


def save_matcher(
    matcher: SingleMatcher, folder: Path, dtype: torch.dtype = torch.float16, vocabulary: bytes | None = None
) -> str:
    """Write a matcher with its calibration, its weights as `dtype`; returns its digest.

    The inverse of `load_matcher`: what this wrote is written again byte for byte, given the same `dtype`. `vocabulary`
    is a file of others to keep as it is; without it one is written from the words. A card (card.md) is the caller's to
    add.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in (CALIBRATION, BANK):
        (folder / name).unlink(missing_ok=True)  # of other weights
    if vocabulary is None:
        matcher.vocabulary.save(folder / VOCABULARY)
    else:
        (folder / VOCABULARY).write_bytes(vocabulary)
    state = matcher.state_dict()
    stored = {name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in state.items()}
    save_file({name: tensor.contiguous().cpu() for name, tensor in stored.items()}, folder / TENSORS)
    config = {
        "format": FOLDER_FORMAT,
        "model": matcher.name,
        "options": stored_options(matcher.reranker.config),
        "encoders": asdict(matcher.encoders),
        "pooled": asdict(matcher.pooled.config),
        "extractor": matcher.extractor_digest,
    }
    (folder / CONFIG).write_text(json.dumps(config, indent=1) + "\n")
    if matcher.calibration is None:
        return _write_digest(folder)
    return save_calibration(folder, matcher.calibration, matcher.hubness.bank if matcher.hubness else None)


def save_calibration(folder: Path, calibration: Calibration, bank: SentenceBank | None = None) -> str:
    """Add the calibration of the weights in `folder`, or replace it; their new digest.

    `bank` is what `calibration.hubness` goes by. Where this is cut short the folder is as it was, or loading it says
    that the digest is another.
    """
    if bank is None:
        (folder / BANK).unlink(missing_ok=True)
    else:
        _replace(folder / BANK, save(bank.tensors()))
    text = json.dumps(calibration.as_dict(), indent=1, ensure_ascii=False) + "\n"
    _replace(folder / CALIBRATION, text.encode())
    return _write_digest(folder)


def _write_digest(folder: Path) -> str:
    digest = digest_of(folder, _files_of(folder))
    _replace(folder / DIGEST, f"{digest}\n".encode())
    return digest


def _replace(path: Path, content: bytes) -> None:
    beside = path.with_name(f"{path.name}.new")
    beside.write_bytes(content)
    beside.replace(path)


def _files_of(folder: Path) -> tuple[str, ...]:
    """The files that the digest is made of, in their order."""
    return (CONFIG, TENSORS, VOCABULARY, *(name for name in (CALIBRATION, BANK) if (folder / name).is_file()))


def load_matcher(folder: Path, device: torch.device | str = "cpu") -> SingleMatcher:
    """A matcher ready to score, with the calibration that the folder has; BadCheckpoint or UnknownModel where it cannot
    be one."""
    matcher = load_uncalibrated(folder, device)
    if not (folder / CALIBRATION).is_file():
        return matcher
    try:
        calibration = Calibration.from_dict(json.loads((folder / CALIBRATION).read_text(encoding="utf-8")))
    except ValueError as fault:
        raise BadCheckpoint(f"{folder / CALIBRATION}: {fault}") from fault
    try:
        bank = SentenceBank.from_tensors(load_file(folder / BANK)) if (folder / BANK).is_file() else None
        return matcher.with_calibration(calibration, bank)
    except ValueError as fault:
        raise BadCheckpoint(f"{folder / BANK}: {fault}") from fault


def load_uncalibrated(folder: Path, device: torch.device | str = "cpu") -> SingleMatcher:
    """The trained matcher without the calibration that the folder may have; otherwise as `load_matcher`."""
    digest = _check_digest(folder)
    config = json.loads((folder / CONFIG).read_text())
    if config["format"] != FOLDER_FORMAT:
        raise BadCheckpoint(f"{folder}: written in another format than {FOLDER_FORMAT}, by another release")
    matcher = new_matcher(
        config["model"],
        EncoderConfig(**config["encoders"]),
        StageOneConfig(**config["pooled"]),
        Vocabulary.load(folder / VOCABULARY),
        config["extractor"],
        digest,
        config.get("options"),
    )
    state = load_file(folder / TENSORS)
    matcher.load_state_dict({name: t.float() if t.is_floating_point() else t for name, t in state.items()}, strict=True)
    return matcher.to(device).eval()


def _check_digest(folder: Path) -> str:
    missing = [name for name in (CONFIG, TENSORS, VOCABULARY, DIGEST) if not (folder / name).is_file()]
    if missing:
        raise BadCheckpoint(f"{folder} holds no checkpoint: {', '.join(missing)} missing")
    digest = digest_of(folder, _files_of(folder))
    stated = (folder / DIGEST).read_text().strip()
    if digest != stated:
        raise BadCheckpoint(f"{folder}: files give digest {digest}, not {stated}; the copy is damaged or edited")
    return digest


def new_matcher(
    name: str,
    encoders: EncoderConfig,
    pooled: StageOneConfig,
    vocabulary: Vocabulary,
    extractor: str,
    digest: str = "",
    options: Mapping[str, Any] | None = None,
) -> SingleMatcher:
    """A matcher with fresh weights; `options` change fields of the named model's config."""
    reranker = build(name, encoders, options)
    if not reranker.projects:
        pooled = replace(pooled, image_width=encoders.feature_dim)
    return SingleMatcher(name, encoders, reranker, StageOneHead(pooled), vocabulary, extractor, digest)
