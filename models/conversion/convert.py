"""Checkpoints of the SCAN, BFAN and CAMP authors' training code -> our folders, with nothing in them run.

Their files hold `model`, a list of state dicts (pictures, sentences and, for CAMP, fusion), and `opt`, all options of
the training. What the score depends on is taken over; what is not known here is refused by its name.
"""

import hashlib
import math
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from models.conversion.authors_options import PLANS, Kind, Options, Plan, Unconvertible
from models.datasets.scan_precomp import PUBLISHED_FEATURES
from models.matching.checkpoint import new_matcher, save_matcher
from models.matching.matcher import SingleMatcher
from models.matching.stage_one import StageOneConfig
from models.rerankers.camp_released import PUBLISHED_NAMES
from models.rerankers.encoders import EncoderConfig
from models.safe_load.restricted_pickle import read_pickle, read_torch
from models.text.vocabulary import Vocabulary


def convert(kind: Kind, file: Path, vocab: Path, out: Path, features: str = PUBLISHED_FEATURES) -> str:
    """Write the authors' checkpoint `file` to the new folder `out`; returns the digest.

    `features` names the extractor whose features it was trained on. Refused, naming what is not known.
    """
    if (out / "config.json").exists():
        raise FileExistsError(f"{out} holds a checkpoint already")
    parts, stored = opened(file)
    opt = Options(stored)
    plan = PLANS[kind](opt)
    vocabulary, vocabulary_file = read_vocabulary(vocab)
    matcher = empty_matcher(plan, opt, vocabulary, features)
    if opt.leftover:
        raise Unconvertible(f"{file}: unknown options {', '.join(f'{n}={stored[n]!r}' for n in sorted(opt.leftover))}")
    fill(matcher, named_weights(parts))
    digest = save_matcher(matcher, out, torch.float32, vocabulary_file)
    (out / "card.md").write_text(card(kind, file, vocab, matcher, stored), encoding="utf-8")
    return digest


def opened(file: Path) -> tuple[list[Mapping[str, Any]], Mapping[str, Any]]:
    """The state dicts and the options of a checkpoint."""
    stored = read_torch(file)
    if not isinstance(stored, dict) or not {"model", "opt"} <= stored.keys():
        raise Unconvertible(f"{file} has no `model` and `opt`: not a checkpoint of these authors' training")
    parts, opt = stored["model"], stored["opt"]
    options = vars(opt) if isinstance(opt, Namespace) else opt
    if not isinstance(options, Mapping):
        raise Unconvertible(f"{file}: `opt` is a {type(opt).__name__}, not the options of a training")
    if not isinstance(parts, list) or not 2 <= len(parts) <= 3 or not all(isinstance(part, Mapping) for part in parts):
        raise Unconvertible(f"{file}: `model` is not a list of the two encoders' weights and, for CAMP, the fusion's")
    endless = [str(name) for name, value in options.items() if isinstance(value, float) and not math.isfinite(value)]
    if endless:
        raise Unconvertible(f"{file}: the options {', '.join(sorted(endless))} are not finite")
    return parts, options


def read_vocabulary(path: Path) -> tuple[Vocabulary, bytes | None]:
    """The words of SCAN's JSON or CAMP's pickle, and the file itself where our folders can keep it as it stands."""
    content = path.read_bytes()
    if not content.startswith(b"\x80"):
        return Vocabulary.load(path), content
    vocabulary = read_pickle(path, ["__main__.Vocabulary"])
    held = getattr(vocabulary, "__dict__", {})
    if set(held) != {"word2idx", "idx2word", "idx"} or not isinstance(held["word2idx"], dict):
        found = ", ".join(sorted(held)) or f"a {type(vocabulary).__name__}"
        raise Unconvertible(f"{path} holds {found}, not word2idx, idx2word and idx")
    return Vocabulary.of_ids(held["word2idx"], str(path)), None


def empty_matcher(plan: Plan, opt: Options, vocabulary: Vocabulary, features: str) -> SingleMatcher:
    """The matcher that the options describe, with random weights and stage one without any."""
    if opt.of("vocab_size", int) != len(vocabulary):
        raise Unconvertible(
            f"option vocab_size is {opt.stored['vocab_size']}, the vocabulary has {len(vocabulary)} words"
        )
    opt.one_of("num_layers", (1,))
    width = opt.of("embed_size", int)
    encoders = EncoderConfig(
        num_words=len(vocabulary),
        feature_dim=opt.of("img_dim", int),
        word_dim=opt.of("word_dim", int),
        width=width,
        bidirectional=plan.bidirectional,
        unit_regions=not opt.of("no_imgnorm", bool),
        unit_words=not opt.of("no_txtnorm", bool),
    )
    return new_matcher(plan.model, encoders, StageOneConfig(width=width), vocabulary, features, options=plan.options)


def named_weights(parts: list[Mapping[str, Any]]) -> dict[str, Tensor]:
    """All weights by the names they have in the authors' files, after "img.", "txt." or "sim."."""
    weights: dict[str, Tensor] = {}
    for part, state in zip(("img", "txt", "sim"), parts, strict=False):
        for name, weight in state.items():
            if not isinstance(weight, Tensor) or not weight.is_floating_point():
                raise Unconvertible(f"{part}.{name} is not a tensor of floating numbers")
            if not weight.isfinite().all():
                raise Unconvertible(f"{part}.{name} holds numbers that are not finite")
            weights[f"{part}.{name.removeprefix('module.')}"] = weight.float()
    scale, direction = weights.pop("img.fc.weight_g", None), weights.pop("img.fc.weight_v", None)
    if scale is not None and direction is not None:
        # torch's weight_norm over the whole matrix (dim=None): one scale, one length.
        weights["img.fc.weight"] = scale * direction / direction.norm()
    return weights


def fill(matcher: SingleMatcher, weights: Mapping[str, Tensor]) -> None:
    """Copy the authors' weights into the reranker; Unconvertible names each that does not fit."""
    theirs = {name: published_name(name) for name in matcher.reranker.state_dict()}
    expected = {theirs[name]: tuple(tensor.shape) for name, tensor in matcher.reranker.state_dict().items()}
    found = {name: tuple(weight.shape) for name, weight in weights.items()}
    wrong = [
        *(f"{name} is not known" for name in sorted(found.keys() - expected.keys())),
        *(f"{name} is missing" for name in sorted(expected.keys() - found.keys())),
        *(
            f"{name} is {found[name]}, not {expected[name]}"
            for name in sorted(found.keys() & expected.keys())
            if found[name] != expected[name]
        ),
    ]
    if wrong:
        raise Unconvertible(f"the weights are not those that `opt` describes: {'; '.join(wrong)}")
    matcher.reranker.load_state_dict({ours: weights[name] for ours, name in theirs.items()}, strict=True)


def published_name(name: str) -> str:
    """Our name of a reranker's weight -> the authors', after the part of their file it is in."""
    for ours, theirs in {"region_encoder": "img", "sentence_encoder": "txt"}.items():
        if name.startswith(f"{ours}."):
            return f"{theirs}{name.removeprefix(ours)}"
    layer, _, which = name.rpartition(".")
    return f"sim.{PUBLISHED_NAMES[layer]}.{which}"


def card(kind: Kind, file: Path, vocab: Path, matcher: SingleMatcher, stored: Mapping[str, Any]) -> str:
    """What the folder's reader must know about where it came from and what it lacks."""
    options = "\n".join(f"- `{name}`: `{value!r}`" for name, value in sorted(stored.items()))
    return f"""# {matcher.name}, converted

Made by `regard convert {kind} {file.name} --vocab {vocab.name}`.

- Weights: `{file.name}`, SHA-256 `{sha256(file)}`; kept in float32.
- Vocabulary: `{vocab.name}`, SHA-256 `{sha256(vocab)}`, {len(matcher.vocabulary)} words.
- Features it was trained on: `{matcher.extractor_digest}`.
- Stage one was not trained: the authors' networks have none. Its embeddings are the mean region vector and the mean
  word vector as they are ({matcher.embed_dim} numbers). Use long shortlists, or score all pairs.
- Licence: that of the file; nothing is known about it here.

Options of the training, as the file has them:

{options}
"""


def sha256(file: Path) -> str:
    """Hex digest of a file's bytes."""
    return hashlib.sha256(file.read_bytes()).hexdigest()
