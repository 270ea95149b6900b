"""What can be said without Detectron2: the message, and which weights fit. With it: `tests/detectron2_check.py`."""

import json
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from models.detectron2_detector import fill, load_detectron2
from models.extractor_config import Unavailable
from models.unpickle import Refused


def test_without_detectron2_the_message_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "detectron2", None)
    monkeypatch.delitem(sys.modules, "detectron2.config", raising=False)
    fields = {"kind": "detectron2", "config": "c.yaml", "weights": "w.pkl"}
    (tmp_path / "config.json").write_text(json.dumps(fields), encoding="utf-8")
    with pytest.raises(Unavailable, match=r"detectron2 is not installed.*pip install --no-build-isolation"):
        load_detectron2(tmp_path)


class Network(nn.Module):
    """A layer, and a constant that some files have and others lack."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.register_buffer("pixel_mean", torch.ones(3))


def test_constants_may_be_missing_or_too_many_but_nothing_else() -> None:
    network, weights = Network(), {"layer.weight": torch.ones(2, 2), "layer.bias": torch.zeros(2)}
    fill(network, {**weights, "anchor_generator.cell_anchors.0": torch.zeros(3, 4)})
    assert torch.equal(network.layer.weight, weights["layer.weight"])
    fill(network, {**weights, "pixel_mean": torch.full((3,), 7.0)})
    assert network.state_dict()["pixel_mean"].tolist() == [7, 7, 7]
    with pytest.raises(Refused, match=r"extra is not known; layer\.bias is missing"):
        fill(network, {"layer.weight": torch.ones(2, 2), "extra": torch.zeros(1)})
