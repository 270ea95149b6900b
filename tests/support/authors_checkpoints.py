"""Checkpoints and vocabularies as the authors' programs write them: small, with random weights."""

import argparse
import io
import json
import pickle
import pickletools
import sys
import types
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from models.text.vocabulary import SPECIALS

WORDS = (*SPECIALS, "dog", "grass", "a", "runs")
WIDTH, WORD_DIM, FEATURE_DIM = 8, 5, 6

State = dict[str, torch.Tensor]
Options = dict[str, Any]

SHARED: Options = {
    "data_path": "./data/",
    "margin": 0.2,
    "max_violation": True,
    "vocab_size": len(WORDS),
    "word_dim": WORD_DIM,
    "embed_size": WIDTH,
    "img_dim": FEATURE_DIM,
    "num_layers": 1,
    "no_imgnorm": False,
    "no_txtnorm": False,
}
BFAN = SHARED | {"focal_type": "prob", "lambda_softmax": 20.0, "precomp_enc_type": "basic"}
SCAN = SHARED | {
    "cross_attn": "t2i",
    "agg_func": "LogSumExp",
    "raw_feature_norm": "clipped_l2norm",
    "lambda_softmax": 9.0,
    "lambda_lse": 6.0,
    "precomp_enc_type": "basic",
    "bi_gru": True,
}
CAMP = SHARED | {
    "no_imgnorm": True,
    "no_txtnorm": True,
    "cross_model": True,
    "self_attention": False,
    "bi_gru": True,
    "measure": "gate_fusion_new",
    "word_embed": "embed/word2vec.npy",
    "optimizer": {"type": "SGD", "momentum": 0.9},
}


def encoders(bidirectional: bool = True, width: int = WIDTH) -> list[State]:
    """State dicts of the two encoders."""
    torch.manual_seed(0)
    rnn = torch.nn.GRU(WORD_DIM, width, batch_first=True, bidirectional=bidirectional)
    pictures = torch.nn.ModuleDict({"fc": torch.nn.Linear(FEATURE_DIM, width)})
    sentences = torch.nn.ModuleDict({"embed": torch.nn.Embedding(len(WORDS), WORD_DIM), "rnn": rnn})
    return [pictures.state_dict(), sentences.state_dict()]


def fusion() -> State:
    """State dict of CAMP's gate_fusion_new."""
    torch.manual_seed(1)
    shapes: dict[str, tuple[int, ...]] = {
        f"{kind}{side}_{role}_fc.weight": (WIDTH, WIDTH)
        for kind in ("", "weighted_")
        for side in ("img", "txt")
        for role in ("key", "query")
    }
    shapes |= {f"fc_{side}.0.weight": (WIDTH, 2 * WIDTH) for side in (1, 2)}
    shapes |= {"fc_out.0.weight": (WIDTH, 2 * WIDTH), "fc_out.0.bias": (WIDTH,)}
    shapes |= {"fc_out.3.weight": (1, WIDTH), "fc_out.3.bias": (1,)}
    for pool in ("final_reduce_1.linear", "final_reduce_2.linear"):
        shapes |= {f"{pool}.0.weight": (WIDTH, WIDTH), f"{pool}.0.bias": (WIDTH,)}
        shapes |= {f"{pool}.2.weight": (4, WIDTH), f"{pool}.2.bias": (4,)}
    return {name: torch.randn(shape) for name, shape in shapes.items()}


def from_gpus(states: list[State]) -> list[State]:
    """State dicts with the names that DataParallel gives to weights."""
    return [OrderedDict((f"module.{name}", weight) for name, weight in state.items()) for state in states]


def write(path: Path, model: Any, opt: Any) -> Path:
    """A file of torch.save from before 1.6; a dict of options becomes a namespace."""
    opt = argparse.Namespace(**opt) if type(opt) is dict else opt
    stored = {"epoch": 3, "model": model, "best_rsum": 400.5, "opt": opt, "Eiters": 10}
    torch.save(stored, path, _use_new_zipfile_serialization=False)
    return path


class EasyDict(dict[str, Any]):
    """Behaves as the class of the package `easydict`: keys are attributes as well, in nested dicts too."""

    def __init__(self, held: Mapping[str, Any]) -> None:
        super().__init__()
        for name, value in held.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        value = type(self)(value) if isinstance(value, dict) else value
        super().__setattr__(name, value)
        super().__setitem__(name, value)


def write_camp(path: Path, model: list[State], options: Options) -> Path:
    """Write a checkpoint whose options are an EasyDict, as CAMP's configuration files become."""
    package = types.ModuleType("easydict")
    package.EasyDict = EasyDict  # type: ignore[attr-defined]
    own, EasyDict.__module__ = EasyDict.__module__, "easydict"
    sys.modules["easydict"] = package
    try:
        return write(path, model, EasyDict(options))
    finally:
        EasyDict.__module__ = own
        del sys.modules["easydict"]


def from_python_2_and_a_gpu(content: bytes) -> bytes:
    """A legacy file of torch.save rewritten as the Python and the device of its time write it."""
    source, written = io.BytesIO(content), io.BytesIO()
    for _ in range(5):  # magic number, version, system, objects, names of the storages; then raw numbers
        parts = list(pickletools.genops(source))
        ends = [position for _, _, position in parts[1:]] + [source.tell()]
        for (code, argument, start), end in zip(parts, ends, strict=True):
            assert start is not None
            if code.name == "BINUNICODE":
                text = str(argument).replace("cpu", "cuda:0").encode()
                written.write(b"U" + bytes([len(text)]) + text)
            elif code.name == "GLOBAL" and argument == "torch FloatStorage":
                written.write(b"ctorch.cuda\nFloatStorage\n")
            else:
                written.write(content[start:end])
    return written.getvalue() + source.read()


def write_vocabulary(path: Path) -> Path:
    """SCAN's JSON, which lists its words in no order."""
    ids = {word: index for index, word in reversed(list(enumerate(WORDS)))}
    stored = {"idx": len(WORDS), "word2idx": ids, "idx2word": {str(index): word for word, index in ids.items()}}
    path.write_text(json.dumps(stored), encoding="utf-8")
    return path


def write_camp_vocabulary(path: Path, **more: Any) -> Path:
    """CAMP's pickle: an object of a class that only its own program knows."""
    ids = {word: index for index, word in enumerate(WORDS)}
    state = {"idx2word": dict(enumerate(WORDS)), "word2idx": ids, "idx": len(WORDS), **more}
    body = pickle.dumps(state, protocol=2)[2:-1]  # without version and end
    path.write_bytes(b"\x80\x02c__main__\nVocabulary\n)\x81" + body + b"b.")
    return path
