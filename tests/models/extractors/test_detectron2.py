"""Detectron2's detectors behind the interface; most of it only where Detectron2 is installed."""

import json
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
from torch import nn

from models.extractors.config import ExtractorUnavailable
from models.extractors.detectron2 import Detectron2FasterRcnn, load_detectron2, load_detectron2_weights
from models.extractors.registry import load_extractor
from models.safe_load.restricted_pickle import RefusedFile


def test_without_detectron2_the_message_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "detectron2", None)
    monkeypatch.delitem(sys.modules, "detectron2.config", raising=False)
    fields = {"kind": "detectron2", "config": "c.yaml", "weights": "w.pkl"}
    (tmp_path / "config.json").write_text(json.dumps(fields), encoding="utf-8")
    with pytest.raises(ExtractorUnavailable, match=r"detectron2 is not installed.*pip install --no-build-isolation"):
        load_detectron2(tmp_path)


class Network(nn.Module):
    """A layer, and a constant that some files have and others lack."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.register_buffer("pixel_mean", torch.ones(3))


def test_constants_may_be_missing_or_too_many_but_nothing_else() -> None:
    network, weights = Network(), {"layer.weight": torch.ones(2, 2), "layer.bias": torch.zeros(2)}
    load_detectron2_weights(network, {**weights, "anchor_generator.cell_anchors.0": torch.zeros(3, 4)})
    assert torch.equal(network.layer.weight, weights["layer.weight"])
    load_detectron2_weights(network, {**weights, "pixel_mean": torch.full((3,), 7.0)})
    assert network.state_dict()["pixel_mean"].tolist() == [7, 7, 7]
    with pytest.raises(RefusedFile, match=r"extra is not known; layer\.bias is missing"):
        load_detectron2_weights(network, {"layer.weight": torch.ones(2, 2), "extra": torch.zeros(1)})


C4 = """
VERSION: 2
MODEL: {RESNETS: {DEPTH: 50}, RPN: {POST_NMS_TOPK_TEST: 60}}
DATASETS: {TEST: [coco_2017_val]}
INPUT: {MIN_SIZE_TEST: 96, MAX_SIZE_TEST: 160}
"""
FPN = """
VERSION: 2
MODEL:
  BACKBONE: {NAME: build_resnet_fpn_backbone}
  RESNETS: {OUT_FEATURES: [res2, res3, res4, res5]}
  FPN: {IN_FEATURES: [res2, res3, res4, res5]}
  ANCHOR_GENERATOR: {SIZES: [[32], [64], [128], [256], [512]]}
  RPN: {IN_FEATURES: [p2, p3, p4, p5, p6], POST_NMS_TOPK_TEST: 60}
  ROI_HEADS: {NAME: StandardROIHeads, IN_FEATURES: [p2, p3, p4, p5], NUM_CLASSES: 2}
  ROI_BOX_HEAD: {NAME: FastRCNNConvFCHead, NUM_FC: 2, POOLER_RESOLUTION: 7, CLS_AGNOSTIC_BBOX_REG: True}
INPUT: {MIN_SIZE_TEST: 96, MAX_SIZE_TEST: 160, FORMAT: RGB}
"""


def folder(at: Path, config: str, **settings: Any) -> Path:
    """A user's folder, with random weights as Detectron2's model zoo stores them."""
    from detectron2.config import get_cfg  # noqa: PLC0415
    from detectron2.modeling import build_model  # noqa: PLC0415

    (at / "c.yaml").write_text(config, encoding="utf-8")
    cfg = get_cfg()
    cfg.merge_from_file(str(at / "c.yaml"))
    cfg.MODEL.DEVICE = "cpu"
    torch.manual_seed(0)
    model = build_model(cfg)
    nn.init.normal_(model.roi_heads.box_predictor.cls_score.weight, std=0.05)
    for name, buffer in model.named_buffers():
        if name.endswith("conv3.norm.weight"):
            buffer.mul_(0.1)  # or random blocks add up to features in thousands, and boxes to nothing
    arrays = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    (at / "w.pkl").write_bytes(pickle.dumps({"model": arrays, "__author__": "random"}, 2))
    fields = {"kind": "detectron2", "config": "c.yaml", "weights": "w.pkl", "num_regions": 9, **settings}
    (at / "config.json").write_text(json.dumps(fields), encoding="utf-8")
    return at


def noise(width: int, height: int) -> PIL.Image.Image:
    coarse = np.random.default_rng(0).integers(0, 256, (9, 9, 3), dtype=np.uint8)
    return PIL.Image.fromarray(coarse).resize((width, height))


@pytest.mark.detectron2
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("config", "settings", "width"),
    [(C4, {}, 2048), (FPN, {"classes": ["cat", "dog"]}, 1024)],
    ids=["C4", "FPN"],
)
def test_its_detections_are_among_ours(config: str, settings: dict[str, Any], width: int, tmp_path: Path) -> None:
    detector = load_detectron2(folder(tmp_path, config, **settings))
    picture = noise(120, 90)
    found = detector.extract([picture, noise(40, 100)])
    assert found.features.shape == (2, 9, width)
    assert found.mask[0].sum() > 3
    assert found.boxes[0, 0].tolist() == pytest.approx([0, 0, 120, 90], rel=1e-5)
    assert found.features.isfinite().all()
    assert detector.labels[:1] == tuple(settings.get("classes", ["person"]))[:1]
    assert isinstance(detector.network, Detectron2FasterRcnn)
    model = detector.network.model
    model.roi_heads.box_predictor.test_score_thresh = 0.0
    first = detector.network.propose(picture)
    second = detector.network.classify(first, detector.network.box_features(first, first.proposals))
    pixels = np.array(picture)[:, :, detector.network.colours]
    resized = detector.network.resize.get_transform(pixels).apply_image(pixels).astype(np.float32)
    said = model.inference([{"image": torch.from_numpy(resized).permute(2, 0, 1)}], do_postprocess=False)[0]
    best = said.scores.argmax()
    row, label = divmod(int(second.probabilities.argmax()), second.probabilities.shape[1])
    assert int(said.pred_classes[best]) == label
    torch.testing.assert_close(second.probabilities[row, label], said.scores[best])
    edges = torch.tensor([first.size[1], first.size[0]] * 2)
    clipped = second.refined[row, label].clamp(min=0).minimum(edges)
    torch.testing.assert_close(clipped, said.pred_boxes.tensor[best], rtol=1e-4, atol=1e-3)


@pytest.mark.detectron2
@pytest.mark.filterwarnings("ignore")
def test_a_config_that_would_run_something_is_refused(tmp_path: Path) -> None:
    at = folder(tmp_path, C4)
    (at / "c.yaml").write_text(f"MODEL: !!python/object/apply:os.mkdir ['{tmp_path / 'owned'}']\n", encoding="utf-8")
    with pytest.raises(Exception, match="python/object/apply"):
        load_detectron2(at)
    assert not (tmp_path / "owned").exists()


@pytest.mark.detectron2
@pytest.mark.filterwarnings("ignore")
def test_classes_without_names_must_be_named(tmp_path: Path) -> None:
    with pytest.raises(RefusedFile, match=r'2 classes; name each in config\.json under "classes"'):
        load_detectron2(folder(tmp_path, FPN))


@pytest.mark.detectron2
@pytest.mark.realdata
@pytest.mark.filterwarnings("ignore")
@pytest.mark.timeout(1800)  # a thousand proposals through the last stage of ResNet-50, on one thread
@pytest.mark.parametrize(
    ("name", "width"), [("faster_rcnn_R_50_C4_1x", 2048), ("faster_rcnn_R_50_FPN_1x", 1024)], ids=["C4", "FPN"]
)
def test_the_model_zoos_configurations_take_real_photographs(
    name: str, width: int, data_dir: Path, tmp_path: Path
) -> None:
    from detectron2 import model_zoo  # noqa: PLC0415

    (at := tmp_path / "detector").mkdir()
    detector = load_extractor(
        folder(at, f"_BASE_: {model_zoo.get_config_file(f'COCO-Detection/{name}.yaml')}\n", num_regions=36)
    )
    files = sorted((data_dir / "butd-sample" / "images").glob("COCO_*.jpg"))[:2]
    pictures = [PIL.Image.open(file).convert("RGB") for file in files]
    found = detector.extract(pictures)
    assert found.features.shape == (2, 36, width)
    assert found.features.isfinite().all()
    for picture, boxes, mask in zip(pictures, found.boxes, found.mask, strict=True):
        assert mask.sum() > 20
        corners, edges = boxes[mask], torch.tensor([picture.width, picture.height])
        assert (corners[:, :2] >= 0).all()
        assert (corners[:, 2:] <= edges + 1e-3).all()
        assert (corners[:, 2:] > corners[:, :2]).all()
