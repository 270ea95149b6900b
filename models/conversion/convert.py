"""Conversion of checkpoints of the SCAN, BFAN and CAMP authors' training code to our folders; nothing in them is run.

Their files hold `model`, a list of state dicts (pictures, sentences and, for CAMP, fusion), and `opt`, all options of
the training. Everything that affects scores is converted; an error names what is unknown.
"""

import hashlib
import math
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from models.conversion.authors_options import (
    TRANSLATIONS,
    AuthorsOptions,
    CheckpointKind,
    ConversionError,
    ConvertedModel,
)
from models.datasets.scan_precomp import PUBLISHED_FEATURES
from models.matching.checkpoint import new_matcher, save_matcher
from models.matching.single_matcher import SingleMatcher
from models.matching.stage_one import StageOneConfig
from models.rerankers.camp_released import PUBLISHED_NAMES
from models.rerankers.encoders import EncoderConfig
from models.safe_load.restricted_pickle import read_pickle, read_torch_file
from models.safe_load.weight_files import weight_mismatches
from models.text.vocabulary import Vocabulary


def convert_checkpoint(
    kind: CheckpointKind, file: Path, vocab: Path, out: Path, features: str = PUBLISHED_FEATURES
) -> str:
    """Write the authors' checkpoint `file`, with its vocabulary, to the new folder `out`; returns the digest.

    `features` names the extractor whose features it was trained on. Raises RefusedFile, which names what is unknown,
    and FileExistsError if `out` already holds a checkpoint.
    """
    if (out / "config.json").exists():
        raise FileExistsError(f"{out} holds a checkpoint already")
    parts, stored = read_authors_checkpoint(file)
    opt = AuthorsOptions(stored)
    opt.check_kind(kind)
    model = TRANSLATIONS[kind](opt)
    vocabulary, vocabulary_file = read_authors_vocabulary(vocab)
    matcher = untrained_model(model, opt, vocabulary, features)
    if opt.unread:
        raise ConversionError(f"{file}: unknown options {', '.join(f'{n}={stored[n]!r}' for n in sorted(opt.unread))}")
    load_authors_weights(matcher, named_weights(parts))
    digest = save_matcher(matcher, out, torch.float32, vocabulary_file)
    (out / "card.md").write_text(model_card(kind, file, vocab, matcher, stored), encoding="utf-8")
    return digest


def read_authors_checkpoint(file: Path) -> tuple[list[Mapping[str, Any]], Mapping[str, Any]]:
    """The state dicts and the options in a checkpoint. Raises ConversionError if it is not from these authors."""
    stored = read_torch_file(file)
    if not isinstance(stored, dict) or not {"model", "opt"} <= stored.keys():
        raise ConversionError(f"{file} has no `model` and `opt`: not a checkpoint of these authors' training")
    parts, opt = stored["model"], stored["opt"]
    options = vars(opt) if isinstance(opt, Namespace) else opt
    if not isinstance(options, Mapping):
        raise ConversionError(f"{file}: `opt` is a {type(opt).__name__}, not the options of a training")
    if not isinstance(parts, list) or not 2 <= len(parts) <= 3 or not all(isinstance(part, Mapping) for part in parts):
        raise ConversionError(f"{file}: `model` is not a list of the two encoders' weights and, for CAMP, the fusion's")
    infinite = [str(name) for name, value in options.items() if isinstance(value, float) and not math.isfinite(value)]
    if infinite:
        raise ConversionError(f"{file}: the options {', '.join(sorted(infinite))} are not finite")
    return parts, options


def read_authors_vocabulary(path: Path) -> tuple[Vocabulary, bytes | None]:
    """The vocabulary in SCAN's JSON or CAMP's pickle, and the file's bytes if our folders can keep it unchanged."""
    content = path.read_bytes()
    if not content.startswith(b"\x80"):
        return Vocabulary.load(path), content
    vocabulary = read_pickle(path, ["__main__.Vocabulary"])
    fields = getattr(vocabulary, "__dict__", {})
    if set(fields) != {"word2idx", "idx2word", "idx"} or not isinstance(fields["word2idx"], dict):
        found = ", ".join(sorted(fields)) or f"a {type(vocabulary).__name__}"
        raise ConversionError(f"{path} holds {found}, not word2idx, idx2word and idx")
    return Vocabulary.from_ids(fields["word2idx"], str(path)), None


def untrained_model(model: ConvertedModel, opt: AuthorsOptions, vocabulary: Vocabulary, features: str) -> SingleMatcher:
    """The matcher that the options describe, with random weights in the reranker and no stage-one weights."""
    if opt.value("vocab_size", int) != len(vocabulary):
        raise ConversionError(
            f"option vocab_size is {opt.stored['vocab_size']}, the vocabulary has {len(vocabulary)} words"
        )
    opt.one_of("num_layers", (1,))
    width = opt.value("embed_size", int)
    encoders = EncoderConfig(
        num_words=len(vocabulary),
        feature_dim=opt.value("img_dim", int),
        word_dim=opt.value("word_dim", int),
        width=width,
        bidirectional=model.bidirectional,
        unit_regions=not opt.value("no_imgnorm", bool),
        unit_words=not opt.value("no_txtnorm", bool),
    )
    return new_matcher(model.name, encoders, StageOneConfig(width=width), vocabulary, features, options=model.options)


def named_weights(parts: list[Mapping[str, Any]]) -> dict[str, Tensor]:
    """All weights by their names in the authors' files, after "img.", "txt." or "sim.", as float32."""
    weights: dict[str, Tensor] = {}
    for part, state in zip(("img", "txt", "sim"), parts, strict=False):
        for name, weight in state.items():
            if not isinstance(weight, Tensor) or not weight.is_floating_point():
                raise ConversionError(f"{part}.{name} is not a tensor of floating numbers")
            if not weight.isfinite().all():
                raise ConversionError(f"{part}.{name} holds numbers that are not finite")
            weights[f"{part}.{name.removeprefix('module.')}"] = weight.float()
    scale, direction = weights.pop("img.fc.weight_g", None), weights.pop("img.fc.weight_v", None)
    if scale is not None and direction is not None:
        # torch's weight_norm over the whole matrix (dim=None): one scale, one length.
        weights["img.fc.weight"] = scale * direction / direction.norm()
    return weights


def load_authors_weights(matcher: SingleMatcher, weights: Mapping[str, Tensor]) -> None:
    """Copy the authors' weights into the reranker. Raises ConversionError, which names each that does not fit."""
    state = matcher.reranker.state_dict()
    theirs = {name: authors_name(name) for name in state}
    expected = {theirs[name]: tuple(tensor.shape) for name, tensor in state.items()}
    found = {name: tuple(weight.shape) for name, weight in weights.items()}
    if wrong := weight_mismatches(found, expected):
        raise ConversionError(f"the weights are not those that `opt` describes: {'; '.join(wrong)}")
    matcher.reranker.load_state_dict({ours: weights[name] for ours, name in theirs.items()}, strict=True)


def authors_name(name: str) -> str:
    """The authors' name of a reranker's weight, prefixed with the part of their file that holds it."""
    for ours, theirs in {"region_encoder": "img", "sentence_encoder": "txt"}.items():
        if name.startswith(f"{ours}."):
            return f"{theirs}{name.removeprefix(ours)}"
    layer, _, parameter = name.rpartition(".")
    return f"sim.{PUBLISHED_NAMES[layer]}.{parameter}"


def model_card(kind: CheckpointKind, file: Path, vocab: Path, matcher: SingleMatcher, stored: Mapping[str, Any]) -> str:
    """The text of card.md: where the weights come from, what they lack, and the options of their training."""
    options = "\n".join(f"- `{name}`: `{value!r}`" for name, value in sorted(stored.items()))
    return f"""# {matcher.name}, converted

Made by `regard convert {kind} {file.name} --vocab {vocab.name}`.

- Weights: `{file.name}`, SHA-256 `{sha256_of(file)}`; kept in float32.
- Vocabulary: `{vocab.name}`, SHA-256 `{sha256_of(vocab)}`, {len(matcher.vocabulary)} words.
- Features it was trained on: `{matcher.extractor_digest}`.
- Stage one was not trained: the authors' networks have none. Its embeddings are the mean region vector and the mean
  word vector as they are ({matcher.embed_dim} numbers). Use long shortlists, or score all pairs.
- Licence: that of the file; nothing is known about it here.

Options of the training, as the file has them:

{options}
"""


def sha256_of(file: Path) -> str:
    """Hex digest of a file's bytes."""
    return hashlib.sha256(file.read_bytes()).hexdigest()
