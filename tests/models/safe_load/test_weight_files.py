"""Named tensors read from pickles of arrays and files of torch.save, and how they are compared."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from models.conversion.detector import read_classifier, read_picture_network, read_sentence_map
from models.conversion.yolox_onnx import read_yolox
from models.extractors.faster_rcnn.extractor import read_detector_weights
from models.safe_load.restricted_pickle import RefusedFile
from models.safe_load.weight_files import read_weights, weight_mismatches
from models.text.bert_encoder import load_bert_encoder

WEIGHTS = {"a.weight": torch.arange(6.0).view(2, 3), "b.count": torch.tensor(7)}


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("prefix", ["", "module."])
@pytest.mark.parametrize("name", ["w.pkl", "w.pth", "w.bin"])
def test_weights_are_read_wrapped_or_bare(name: str, prefix: str, wrapped: bool, tmp_path: Path) -> None:
    state: Any = {prefix + name: tensor for name, tensor in WEIGHTS.items()}
    if name.endswith(".pkl"):
        state = {name: tensor.numpy() for name, tensor in state.items()}
    stored = {"model": state, "__author__": "somebody", "iteration": 5} if wrapped else state
    if name.endswith(".pkl"):
        (tmp_path / name).write_bytes(pickle.dumps(stored, 2))
    else:
        torch.save(stored, tmp_path / name)
    read = read_weights(tmp_path / name)
    assert read.keys() == WEIGHTS.keys()
    for key, tensor in WEIGHTS.items():
        assert torch.equal(read[key], tensor.float())


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    torch.save([1, 2], tmp_path / "list.pth")
    torch.save({"lr": 0.1}, tmp_path / "options.pth")
    with pytest.raises(RefusedFile, match="a list, not weights by name"):
        read_weights(tmp_path / "list.pth")
    with pytest.raises(RefusedFile, match=r"lr is 0\.1, not a tensor"):
        read_weights(tmp_path / "options.pth")


def test_every_misfit_is_said() -> None:
    said = weight_mismatches({"a": (1,), "b": (2, 3), "c": ()}, {"b": (3, 2), "c": (), "d": (4,)})
    assert said == ["a is not known", "d is missing", "b is (2, 3), not (3, 2)"]


@pytest.mark.parametrize(
    ("read", "name"),
    [
        (lambda file: read_detector_weights(file, {}), "model.safetensors"),
        (lambda file: load_bert_encoder(file.parent), "model.safetensors"),
        (lambda file: read_classifier(file, "mobilenet-v2"), "head.safetensors"),
        (lambda file: read_picture_network(file.parent), "backbone.safetensors"),
        (read_sentence_map, "head.safetensors"),
        (read_yolox, "yolox.safetensors"),
    ],
)
def test_weights_that_were_cut_are_named(read: Callable[[Path], object], name: str, tmp_path: Path) -> None:
    save_file({"of_picture.weight": torch.zeros(9)}, tmp_path / "head.safetensors")
    save_file(WEIGHTS, tmp_path / "whole")
    (tmp_path / name).write_bytes((tmp_path / "whole").read_bytes()[:-3])
    with pytest.raises(RefusedFile, match=rf"{name} is no whole file of safetensors"):
        read(tmp_path / name)
