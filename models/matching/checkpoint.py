"""Matchers on disk: a folder of safetensors, JSON and a vocabulary. Loading is strict and checks the digest.

config.json          the model's name, options and widths, and the digest of the extractor it was trained with; if it
                     reads sentences by a sentence encoder, also that encoder's digest; the matcher's name if it differs
model.safetensors    weights of the reranker and of the stage-one head
vocabulary.json      words and their ids, perhaps compressed (.xz); not if sentences are read by a sentence encoder
calibration.json     the calibration of the scores, with the hubness correction; optional
hubs.safetensors     typical sentences and perhaps pictures, which the hubness correction uses; optional
digest               first 16 hex digits of a SHA-256 over the files above
"""

import json
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from models.compressed_files import compressed, is_stored, stored_text
from models.digests import digest_of_contents
from models.matching.calibration import Calibration
from models.matching.hubness_banks import HubnessBanks
from models.matching.lazy_matcher import MatcherHeader
from models.matching.single_matcher import SingleMatcher
from models.matching.stage_one import StageOneConfig, StageOneHead
from models.quantised_rows import dequantise_all, quantise_matrices
from models.rerankers.base import stored_options
from models.rerankers.encoders import EncoderConfig
from models.rerankers.registry import UnknownModel, UnknownOption, build, entry_of
from models.text.pretrained_reader import PretrainedReader, shipped_identity, shipped_reader
from models.text.reader import SentenceReader
from models.text.vocabulary import Vocabulary
from models.whole_files import write_tensors, write_whole

WEIGHTS = Path(__file__).parent.parent / "weights"
CONFIG, TENSORS, VOCABULARY, DIGEST = "config.json", "model.safetensors", "vocabulary.json", "digest"
CALIBRATION, BANKS = "calibration.json", "hubs.safetensors"
TRAINED = "best"  # the subfolder of a training's weights
SENTENCE_ENCODER_KEY, NAME_KEY = "sentence_encoder", "name"  # in config.json
FOLDER_FORMAT = 1


class BadCheckpoint(ValueError):
    """A folder that holds no valid checkpoint; the message names the file."""


def save_matcher(
    matcher: SingleMatcher,
    folder: Path,
    dtype: torch.dtype = torch.float16,
    vocabulary: bytes | None = None,
    matrix_bits: int = 16,
) -> str:
    """Write a matcher with its calibration, its weights as `dtype`; returns its digest.

    The inverse of `load_matcher`: saving a loaded matcher again gives the same bytes for the same `dtype` and
    `matrix_bits`. With fewer than 16 bits, matrices are stored in the form of `models/quantised_rows.py`. `vocabulary`
    is the content of an existing file to keep; without it the file is written from the words. The caller adds card.md.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in (CALIBRATION, BANKS):
        (folder / name).unlink(missing_ok=True)  # of other weights
    reader = matcher.reader
    compressed(folder / VOCABULARY).unlink(missing_ok=True)
    if vocabulary is not None:
        write_whole(folder / VOCABULARY, vocabulary)
    elif isinstance(reader, PretrainedReader):
        (folder / VOCABULARY).unlink(missing_ok=True)
    else:
        matcher.vocabulary.save(folder / VOCABULARY)
    write_tensors(folder / TENSORS, _stored_tensors(matcher, dtype, matrix_bits))
    config = {
        "format": FOLDER_FORMAT,
        "model": matcher.model,
        **({} if matcher.name == matcher.model else {NAME_KEY: matcher.name}),
        "options": stored_options(matcher.reranker.config),
        "encoders": stored_options(matcher.encoders),
        "pooled": asdict(matcher.pooled.config),
        "extractor": matcher.extractor_digest,
    }
    if isinstance(reader, PretrainedReader):
        config[SENTENCE_ENCODER_KEY] = reader.digest
    write_whole(folder / CONFIG, (json.dumps(config, indent=1) + "\n").encode())
    if matcher.calibration is None:
        return _write_digest(folder)
    return save_calibration(folder, matcher.calibration, matcher.hubness.banks if matcher.hubness else None)


def as_stored(matcher: SingleMatcher, dtype: torch.dtype = torch.float16, matrix_bits: int = 16) -> SingleMatcher:
    """A copy of a matcher with the weights that it would have after `save_matcher` and `load_matcher`."""
    rounded = deepcopy(matcher)
    rounded.load_state_dict(dequantise_all(_stored_tensors(matcher, dtype, matrix_bits)))
    return rounded


def _stored_tensors(matcher: SingleMatcher, dtype: torch.dtype, matrix_bits: int) -> dict[str, Tensor]:
    state = matcher.state_dict()
    few_bits = quantise_matrices(state, matrix_bits) if matrix_bits < 16 else state
    return {name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in few_bits.items()}


def save_calibration(folder: Path, calibration: Calibration, banks: HubnessBanks | None = None) -> str:
    """Add or replace the calibration of the weights in `folder`; returns the new digest.

    `banks` are those of `calibration.hubness`. If this is interrupted, the folder is unchanged, or loading it fails
    because of another digest.
    """
    if banks is None:
        (folder / BANKS).unlink(missing_ok=True)
    else:
        write_tensors(folder / BANKS, banks.tensors())
    text = json.dumps(calibration.as_dict(), indent=1, ensure_ascii=False) + "\n"
    write_whole(folder / CALIBRATION, text.encode())
    return _write_digest(folder)


def _write_digest(folder: Path) -> str:
    digest = _digest_of(folder)
    write_whole(folder / DIGEST, f"{digest}\n".encode())
    return digest


def _digest_of(folder: Path) -> str:
    """The digest of a folder's files, compressed or not."""
    names = (CONFIG, TENSORS, *(name for name in (VOCABULARY, CALIBRATION, BANKS) if is_stored(folder / name)))
    return digest_of_contents(stored_text(folder / name) for name in names)


def load_matcher(
    folder: Path | str, device: torch.device | str = "cpu", reader: PretrainedReader | None = None
) -> SingleMatcher:
    """A matcher ready to score, with the folder's calibration if there is one. Raises BadCheckpoint or UnknownModel.

    A matcher with pretrained text reads sentences by `reader`, or by the shipped encoder, which all matchers on a
    device share.
    """
    folder = Path(folder)
    matcher, calibration = load_uncalibrated(folder, device, reader), _stored_calibration(folder)
    if calibration is None:
        return matcher
    with _refused_by_name(folder / BANKS):
        banks = HubnessBanks.from_tensors(load_file(folder / BANKS)) if (folder / BANKS).is_file() else None
    try:
        return matcher.with_calibration(calibration, banks)
    except ValueError as fault:
        raise BadCheckpoint(f"{folder / BANKS}: {fault}") from fault


def read_header(folder: Path) -> MatcherHeader:
    """The header of the folder's matcher, without loading its weights; their digest is checked.

    Raises BadCheckpoint and UnknownModel like `load_matcher`, except for undamaged weights of another model than
    config.json describes.
    """
    digest, config = _checked_config(folder)
    with _refused_by_name(folder / CONFIG):
        entry_of(config["model"], config.get("options"))
        feature_dim = EncoderConfig(**config["encoders"]).feature_dim
        name, extractor = _name_in(config, folder), config["extractor"]
    return MatcherHeader(
        name=name,
        digest=digest,
        extractor_digest=extractor,
        feature_dim=feature_dim,
        reader=_reader_identity(folder, config),
        calibration=_stored_calibration(folder),
    )


@contextmanager
def _refused_by_name(path: Path) -> Iterator[None]:
    """Errors from a file's content turned into BadCheckpoint, which names the file."""
    try:
        yield
    except (BadCheckpoint, UnknownModel, UnknownOption):
        raise
    except KeyError as fault:
        raise BadCheckpoint(f"{path} lacks {fault}") from fault
    except (ValueError, TypeError, AttributeError, RuntimeError, SafetensorError) as fault:
        reason = " ".join(str(fault).split())  # PyTorch's messages have many lines
        raise BadCheckpoint(reason if str(path) in reason else f"{path}: {reason}") from fault


def _name_in(config: Mapping[str, Any], folder: Path) -> str:
    """The matcher's name: the model's, or one that begins with it, for a further training."""
    name = str(config.get(NAME_KEY, config["model"]))
    if not f"{name}-".startswith(f"{config['model']}-"):
        raise BadCheckpoint(f"{folder / CONFIG}: the name {name!r} must begin with the model's, {config['model']}")
    return name


def _stored_calibration(folder: Path) -> Calibration | None:
    if not (folder / CALIBRATION).is_file():
        return None
    with _refused_by_name(folder / CALIBRATION):
        return Calibration.from_dict(json.loads((folder / CALIBRATION).read_text(encoding="utf-8")))


def load_uncalibrated(
    folder: Path, device: torch.device | str = "cpu", reader: PretrainedReader | None = None
) -> SingleMatcher:
    """The trained matcher without the folder's calibration; otherwise like `load_matcher`."""
    digest, config = _checked_config(folder)
    sentence_reader = _reader_of(folder, config, device, reader)
    with _refused_by_name(folder / CONFIG):
        matcher = new_matcher(
            config["model"],
            EncoderConfig(**config["encoders"]),
            StageOneConfig(**config["pooled"]),
            sentence_reader,
            config["extractor"],
            digest,
            config.get("options"),
        )
        matcher.name = _name_in(config, folder)
    with _refused_by_name(folder / TENSORS):
        matcher.load_state_dict(dequantise_all(load_file(folder / TENSORS)), strict=True)
    return matcher.to(device).eval()


def _reader_of(
    folder: Path, config: Mapping[str, Any], device: torch.device | str, preferred: PretrainedReader | None
) -> SentenceReader:
    if SENTENCE_ENCODER_KEY not in config:
        return _vocabulary_in(folder)
    reader = preferred or shipped_reader(device)
    _check_sentence_encoder(folder, config, reader.digest)
    return reader


def _reader_identity(folder: Path, config: Mapping[str, Any]) -> Hashable:
    """The identity of the reader of `_reader_of`, without loading a sentence encoder."""
    if SENTENCE_ENCODER_KEY not in config:
        return _vocabulary_in(folder).identity
    _check_sentence_encoder(folder, config, shipped_identity())
    return str(config[SENTENCE_ENCODER_KEY])


def _vocabulary_in(folder: Path) -> Vocabulary:
    with _refused_by_name(folder / VOCABULARY):
        return Vocabulary.load(folder / VOCABULARY)


def _check_sentence_encoder(folder: Path, config: Mapping[str, Any], here: str) -> None:
    """Raise BadCheckpoint unless the folder's model reads by the sentence encoder with the digest `here`."""
    wanted = config[SENTENCE_ENCODER_KEY]
    if here != wanted:
        raise BadCheckpoint(
            f"{folder} reads sentences by the encoder {wanted}, and the one here is {here}: it was trained with"
            " another release"
        )


def _checked_config(folder: Path) -> tuple[str, dict[str, Any]]:
    """The folder's verified digest, and its config.json."""
    digest = checked_digest(folder)
    with _refused_by_name(folder / CONFIG):
        config: dict[str, Any] = json.loads((folder / CONFIG).read_text())
        if config["format"] != FOLDER_FORMAT:
            raise BadCheckpoint(f"{folder}: written in another format than {FOLDER_FORMAT}, by another release")
    return digest, config


def checked_digest(folder: Path) -> str:
    """The folder's digest. Raises BadCheckpoint if its files do not match it."""
    missing = [name for name in (CONFIG, TENSORS, DIGEST) if not (folder / name).is_file()]
    if not missing and not is_stored(folder / VOCABULARY) and not _has_sentence_encoder(folder):
        missing = [VOCABULARY]
    if missing:
        inside = f"; {folder / TRAINED} does" if (folder / TRAINED / CONFIG).is_file() else ""
        raise BadCheckpoint(f"{folder} holds no checkpoint: {', '.join(missing)} missing{inside}")
    with _refused_by_name(folder):
        digest = _digest_of(folder)
    stated = (folder / DIGEST).read_text().strip()
    if digest != stated:
        raise BadCheckpoint(f"{folder}: files give digest {digest}, not {stated}; the copy is damaged or edited")
    return digest


def _has_sentence_encoder(folder: Path) -> bool:
    try:
        return SENTENCE_ENCODER_KEY in json.loads((folder / CONFIG).read_text())
    except (ValueError, TypeError):
        return False  # the digest of a damaged file will not match


def new_matcher(
    name: str,
    encoders: EncoderConfig,
    head: StageOneConfig,
    reader: SentenceReader,
    extractor: str,
    digest: str = "",
    options: Mapping[str, Any] | None = None,
) -> SingleMatcher:
    """An untrained matcher; `options` change fields of the named model's config."""
    reranker = build(name, encoders, options)
    if not reranker.projects:
        head = replace(head, image_width=encoders.feature_dim)
    return SingleMatcher(name, encoders, reranker, StageOneHead(head), reader, extractor, digest)
