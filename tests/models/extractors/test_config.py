"""Kind, fields and identity of an extractor's folder."""

import json
from pathlib import Path

import torch
from torch import nn

from models.extractors.config import digest_of_extractor, read_config, read_kind


def test_the_kind_is_no_field(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"kind": "one", "side": 3}), encoding="utf-8")
    assert read_kind(tmp_path) == "one"
    assert read_config(tmp_path) == {"side": 3}
    (tmp_path / "config.json").write_text(json.dumps({"side": 3}), encoding="utf-8")
    assert read_kind(tmp_path) is None
    assert read_config(tmp_path) == {"side": 3}


def test_a_fingerprint_changes_with_whatever_changes_features() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    first = digest_of_extractor("kind", {"side": 3}, network)
    assert first == digest_of_extractor("kind", {"side": 3}, network)
    assert (
        len(
            {
                first,
                digest_of_extractor("other", {"side": 3}, network),
                digest_of_extractor("kind", {"side": 4}, network),
            }
        )
        == 3
    )
    before = network.state_dict()["1.running_mean"].clone()
    network.state_dict()["1.running_mean"][0] += 1e-6
    assert digest_of_extractor("kind", {"side": 3}, network) != first
    network.state_dict()["1.running_mean"].copy_(before)
    assert digest_of_extractor("kind", {"side": 3}, network) == first
