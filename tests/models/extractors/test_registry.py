"""Which extractor a folder holds."""

import json
from pathlib import Path

import pytest
import torch

from models.extractors.bottom_up.extractor import BottomUpExtractor
from models.extractors.config import BadExtractor
from models.extractors.faster_rcnn.config import POSITIVE_FIELDS, SHARE_FIELDS, DetectorConfig
from models.extractors.faster_rcnn.extractor import FasterRcnn, save_detector
from models.extractors.grid import GridExtractor
from models.extractors.registry import LOADERS, UnknownExtractor, load_extractor
from service.cli.user_errors import is_user_error
from tests.models.extractors.bottom_up.test_extractor import folder
from tests.support import caffe_weights

ZEROS = {name: 0 * getattr(DetectorConfig, name) for name in POSITIVE_FIELDS}  # whole or not, as the fields are


@pytest.fixture(scope="module")
def detector_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    at = tmp_path_factory.mktemp("detector")
    save_detector(FasterRcnn(DetectorConfig(labels=("cat",), neck_width=16, head_width=16)), at)
    return at


def test_a_folder_that_names_no_kind_holds_the_projects_own_detector(detector_folder: Path) -> None:
    loaded = load_extractor(detector_folder)
    assert isinstance(loaded, FasterRcnn)
    config = json.loads((detector_folder / "config.json").read_text(encoding="utf-8"))
    (detector_folder / "config.json").write_text(json.dumps({"kind": "faster-rcnn", **config}), encoding="utf-8")
    assert load_extractor(detector_folder).digest == loaded.digest


def test_the_named_kind_is_loaded(detector_folder: Path, tmp_path: Path) -> None:
    assert isinstance(
        load_extractor(folder(tmp_path / "b", caffe_weights.random_weights(caffe_weights.Size()))), BottomUpExtractor
    )
    (tmp_path / "config.json").write_text(
        json.dumps({"kind": "grid", "backbone": str(detector_folder), "side": 64}), encoding="utf-8"
    )
    grid = load_extractor(tmp_path)
    assert isinstance(grid, GridExtractor)
    assert grid.num_regions == 4


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "config.json is no JSON"),
        ("[]", "config.json is no JSON object"),
        ('{"labels": ["a"], "colour": 1}', "'colour' is no field of DetectorConfig; there are labels, backbone"),
        ('{"backbone": "mobilenet-v2"}', "'labels' is missing"),
        ('{"labels": ["a"], "backbone": "x"}', "no backbone is called 'x'"),
        ('{"labels": ["a"], "feature": "mapp"}', "'feature' is one of 'region', 'map', 'map-mean', not \"mapp\""),
        ('{"labels": ["a"], "min_label": null}', "'min_label' is a number, not null"),
        ('{"labels": ["a"], "num_regions": "36"}', "'num_regions' is a whole number, not \"36\""),
        ('{"labels": ["a", 1]}', "'labels' is a list, each of it a text, not [\"a\", 1]"),
        ('{"labels": "cat"}', "'labels' is a list, each of it a text"),
        *((f'{{"labels": ["a"], "{name}": {ZEROS[name]}}}', f"{name} is above 0, not 0") for name in ZEROS),
        *((f'{{"labels": ["a"], "{name}": 1.5}}', f"{name} is from 0 to 1, not 1.5") for name in SHARE_FIELDS),
        ('{"labels": ["a"], "concept_dim": -1}', "concept_dim is 0, for no concepts, or above, not -1"),
        ('{"kind": []}', "'kind' is a text, not []"),
        ('{"kind": "grid", "backbone": ".", "side": 40}', "multiple of 32 pixels, not 40"),
        ('{"kind": "grid", "backbone": ".", "batch": 0}', "batch is above 0"),
        ('{"kind": "precomputed", "digest": "a", "num_regions": 3, "feature_dim": 0}', "feature_dim is above 0"),
        ('{"kind": "bottom-up", "weights": "w", "blocks": [1, 2, 1]}', "blocks are those of 4 stages"),
        ('{"kind": "bottom-up", "weights": "w", "max_boxes": 35}', "min_boxes is at most max_boxes, 35, not 36"),
        ('{"kind": "detectron2", "config": "c", "weights": "w", "any_overlap": 7.0}', "any_overlap is from 0 to 1"),
        ('{"kind": "torchvision", "weights": 3}', "'weights' is a text or null, not 3"),
        ('{"kind": "torchvision", "long_side": 0}', "long_side is above 0"),
        ('{"kind": "grid"}', "'backbone' names no detector's folder"),
        ('{"kind": "grid", "backbone": ".", "cells": 3}', "'cells' is no field of GridConfig"),
        ('{"kind": "precomputed", "num_regions": 3}', "'digest' is missing"),
        ('{"kind": "bottom-up", "colour": 1}', "'colour' is no field of BottomUpConfig"),
        ('{"kind": "detectron2"}', "'config' is missing"),
        ('{"kind": "torchvision", "sides": 3}', "'sides' is no field of TorchvisionConfig"),
    ],
)
def test_a_wrong_configuration_is_told_with_its_fault(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "config.json").write_text(content, encoding="utf-8")
    with pytest.raises(BadExtractor) as fault:
        load_extractor(tmp_path)
    assert said in str(fault.value)
    assert str(tmp_path) in str(fault.value)
    assert is_user_error(fault.value)


def test_an_unknown_kind_is_told_with_those_known(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"kind": "yolo"}', encoding="utf-8")
    with pytest.raises(UnknownExtractor, match=f"'yolo'; known: {', '.join(LOADERS)}"):
        load_extractor(tmp_path)
