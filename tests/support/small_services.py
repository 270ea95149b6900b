"""A real service that starts in seconds: untrained weights of a small detector and small models."""

import json
from pathlib import Path

import torch
from torch import nn

from models.extractors.faster_rcnn.config import DetectorConfig
from models.extractors.faster_rcnn.extractor import FasterRcnn, save_detector
from models.extractors.registry import load_extractor
from tests.support.small_matchers import small_weights


def small_service(folder: Path) -> dict[str, str]:
    """The settings, by their names; the weights are written below the folder."""
    torch.manual_seed(0)
    detector = FasterRcnn(DetectorConfig(labels=("thing",), neck_width=16, head_width=16))
    for layer in detector.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight)  # fresh weights count on batch norm and let all signal die
    save_detector(detector, folder / "backbone")
    grid = folder / "grid"
    grid.mkdir()
    config = {"kind": "grid", "backbone": "../backbone", "side": 64}
    (grid / "config.json").write_text(json.dumps(config), encoding="utf-8")
    extractor = load_extractor(grid)
    names = ("scan-t2i-avg", "bfan-equal")
    for seed, name in enumerate(names):
        small_weights(folder / name, name, seed, feature_dim=extractor.feature_dim, extractor=extractor.digest)
    models = ",".join(f"small-{name}={folder / name}" for name in names)
    return {"detector": str(grid), "models": models, "threads": "1"}
