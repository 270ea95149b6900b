"""torchvision's detector behind the interface, with random weights and looking at small pictures."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
from torch import Tensor
from torchvision.models.detection import fasterrcnn_resnet50_fpn_v2

from models.extractors.config import ExtractorUnavailable
from models.extractors.torchvision import load_torchvision
from models.extractors.two_stage import TwoStageDetector
from models.safe_load.restricted_pickle import RefusedFile

SMALL = {"short_side": 64, "long_side": 96}


@pytest.fixture(scope="module")
def weights() -> dict[str, Tensor]:
    torch.manual_seed(0)
    state: dict[str, Tensor] = fasterrcnn_resnet50_fpn_v2(weights=None, weights_backbone=None).state_dict()
    return state


def folder(at: Path, **settings: Any) -> Path:
    at.mkdir(exist_ok=True)
    (at / "config.json").write_text(json.dumps({"kind": "torchvision", **SMALL, **settings}), encoding="utf-8")
    return at


@pytest.fixture(scope="module")
def detector(weights: dict[str, Tensor], tmp_path_factory: pytest.TempPathFactory) -> TwoStageDetector:
    return load_torchvision(folder(tmp_path_factory.mktemp("d"), num_regions=9), download=lambda: weights)


def noise(width: int, height: int) -> PIL.Image.Image:
    coarse = np.random.default_rng(0).integers(0, 256, (9, 9, 3), dtype=np.uint8)
    return PIL.Image.fromarray(coarse).resize((width, height))


@pytest.mark.slow
def test_pictures_get_their_regions_with_the_box_heads_features(detector: TwoStageDetector) -> None:
    pictures = [noise(120, 90), noise(50, 200), noise(1, 1)]
    found = detector.extract(pictures)
    assert found.features.shape == (3, 9, 1024)
    assert found.mask[:, 0].all()
    for k, picture in enumerate(pictures):
        assert detector.labels[int(found.labels[k, 0])] == "picture"
        edges = torch.tensor([picture.width, picture.height] * 2)
        assert found.boxes[k, 0].tolist() == pytest.approx([0, 0, picture.width, picture.height], rel=1e-5)
        assert (found.boxes[k] <= edges + 1e-3).all()
        alone = detector.extract([picture])
        torch.testing.assert_close(alone.features[0], found.features[k], rtol=1e-4, atol=1e-5)
    assert detector.labels[0] == "person"
    assert len(detector.labels) == 91


@pytest.mark.slow
def test_what_it_says_of_proposals_is_what_torchvision_says(detector: TwoStageDetector) -> None:
    model: Any = detector.network.model
    first = detector.network.propose(noise(120, 90))
    second = detector.network.classify(first, detector.network.box_features(first, first.proposals))
    pixels = torch.from_numpy(np.array(noise(120, 90))).permute(2, 0, 1) / 255
    model.roi_heads.score_thresh, model.roi_heads.nms_thresh = 0.0, 1.0
    said = model([pixels])[0]
    best = said["scores"].argmax()
    row, label = divmod(int(second.probabilities.argmax()), second.probabilities.shape[1])
    assert int(said["labels"][best]) == label + 1
    torch.testing.assert_close(second.probabilities[row, label], said["scores"][best])
    zoom = torch.tensor([120 / first.size[1], 90 / first.size[0]] * 2)
    edges = torch.tensor([120.0, 90, 120, 90])
    clipped = (second.refined[row, label] * zoom).clamp(min=0).minimum(edges)
    torch.testing.assert_close(clipped, said["boxes"][best], rtol=1e-4, atol=1e-2)


@pytest.mark.slow
def test_a_local_file_is_taken_instead_of_the_network(
    weights: dict[str, Tensor], detector: TwoStageDetector, tmp_path: Path
) -> None:
    at = folder(tmp_path / "e", weights="w.pth", num_regions=9)
    torch.save(weights, at / "w.pth")
    assert load_torchvision(at, download=no_network).digest == detector.digest
    torch.save({name: tensor for name, tensor in weights.items() if name != "rpn.head.bbox_pred.bias"}, at / "w.pth")
    with pytest.raises(RefusedFile, match=r"fasterrcnn_resnet50_fpn_v2: rpn\.head\.bbox_pred\.bias is missing"):
        load_torchvision(at)


def no_network() -> dict[str, Tensor]:
    raise OSError("no route to host")


def test_without_a_network_the_message_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ExtractorUnavailable, match=r'(?s)no route to host.*fetch http.*"weights": "FILE"'):
        load_torchvision(folder(tmp_path / "e"), download=no_network)
