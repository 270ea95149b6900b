"""The two public conversions: names, shapes, orders and files."""

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from models.extractors.bottom_up.network import BottomUpNetwork
from models.extractors.bottom_up.weights import (
    AIRSPLAY,
    MILVLG,
    ConversionLayout,
    conversion_shapes,
    load_bottom_up_weights,
)
from models.safe_load.restricted_pickle import RefusedFile
from models.safe_load.weight_files import read_weights
from tests.support import caffe_reference as caffe
from tests.support import caffe_weights

SIZE = caffe_weights.Size()
# From listings of the public files.
LISTED = {
    "backbone.stem.conv1.weight": (64, 3, 7, 7),
    "backbone.stem.conv1.norm.running_var": (64,),
    "backbone.res2.0.shortcut.weight": (256, 64, 1, 1),
    "backbone.res3.0.conv1.weight": (128, 256, 1, 1),
    "backbone.res4.22.conv3.norm.bias": (1024,),
    "proposal_generator.rpn_head.conv.weight": (512, 1024, 3, 3),
    "proposal_generator.rpn_head.anchor_deltas.weight": (48, 512, 1, 1),
    "roi_heads.res5.0.shortcut.weight": (2048, 1024, 1, 1),
    "roi_heads.res5.2.conv2.weight": (512, 512, 3, 3),
    "roi_heads.box_predictor.cls_score.weight": (1601, 2048),
}
LISTED_AIRSPLAY = {
    "proposal_generator.rpn_head.objectness_logits.weight": (12, 512, 1, 1),
    "roi_heads.box_predictor.bbox_pred.weight": (6400, 2048),
    "roi_heads.box_predictor.cls_embedding.weight": (1601, 256),
    "roi_heads.box_predictor.fc_attr.weight": (512, 2304),
    "roi_heads.box_predictor.attr_score.bias": (401,),
}
LISTED_MILVLG = {
    "proposal_generator.rpn_head.objectness_logits.weight": (24, 512, 1, 1),
    "roi_heads.box_predictor.bbox_pred.weight": (6404, 2048),
    "roi_heads.box_predictor.cls_embed.weight": (1601, 256),
    "roi_heads.box_predictor.attr_linear1.weight": (512, 2304),
    "roi_heads.box_predictor.attr_linear2.bias": (401,),
}


def network(size: caffe_weights.Size = SIZE) -> BottomUpNetwork:
    return BottomUpNetwork(size.width, size.blocks, size.num_objects, size.num_attributes)


def filled(stored: dict[str, Tensor]) -> dict[str, Tensor]:
    empty = network()
    load_bottom_up_weights(empty, stored)
    return empty.state_dict()


@pytest.mark.parametrize(("layout", "listed"), [(AIRSPLAY, LISTED_AIRSPLAY), (MILVLG, LISTED_MILVLG)])
def test_the_full_network_has_the_listed_names_and_shapes(layout: ConversionLayout, listed: dict[str, Any]) -> None:
    with torch.device("meta"):
        shapes = conversion_shapes(network(caffe_weights.Size(64, (3, 4, 23, 3), 1600, 400)), layout)
    assert LISTED.items() <= shapes.items()
    assert listed.items() <= shapes.items()
    backbone = [name for name in shapes if ".conv" in name and name.startswith(("backbone", "roi_heads"))]
    assert len([name for name in backbone if name.endswith("conv2.weight")]) == 3 + 4 + 23 + 3


def test_both_conversions_of_the_same_numbers_fill_the_same_network() -> None:
    state = caffe_weights.random_weights(SIZE)
    theirs, ours = filled(caffe_weights.as_airsplay(state)), filled(state)
    for name, tensor in ours.items():
        torch.testing.assert_close(theirs[name], tensor, msg=name)


def test_without_its_anchors_a_file_is_in_the_order_of_the_code_it_is_for() -> None:
    for state in (caffe_weights.random_weights(SIZE), caffe_weights.as_airsplay(caffe_weights.random_weights(SIZE))):
        with_anchors = filled(state)
        without = filled({name: tensor for name, tensor in state.items() if name != caffe_weights.CELL_ANCHORS})
        for name, tensor in with_anchors.items():
            assert torch.equal(without[name], tensor)


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("suffix", [".pkl", ".pth"])
def test_files_are_read_with_and_without_a_wrapping(suffix: str, wrapped: bool, tmp_path: Path) -> None:
    state = caffe_weights.random_weights(SIZE)
    state |= {f"{name}.num_batches_tracked": torch.tensor(7) for name in ("backbone.stem.conv1.norm",)}
    stored: Any = {"model": state, "__author__": "somebody", "iteration": 5} if wrapped else state
    file = tmp_path / f"weights{suffix}"
    if suffix == ".pth":
        torch.save(stored, file)
    else:
        arrays = {name: tensor.numpy() for name, tensor in state.items()}
        file.write_bytes(pickle.dumps({**stored, "model": arrays} if wrapped else arrays, 2))
    read = filled(read_weights(file))
    for name, tensor in filled(state).items():
        assert torch.equal(read[name], tensor)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"backbone.res9.0.conv1.weight": torch.zeros(1)}, "backbone.res9.0.conv1.weight is not known"),
        ({"backbone.stem.conv1.norm.bias": None}, "backbone.stem.conv1.norm.bias is missing"),
        ({f"{caffe.RPN}.conv.bias": torch.zeros(3)}, rf"{caffe.RPN}.conv.bias is \(3,\), not \(32,\)"),
        ({f"{caffe.BOX}.cls_embed.weight": None}, "no attribute head, or not of a conversion that is known"),
        ({caffe_weights.CELL_ANCHORS: torch.zeros(9, 4)}, r"cell_anchors.0 is \(9, 4\)"),
        ({caffe_weights.CELL_ANCHORS: torch.tensor(caffe.ANCHORS) / 16.0}, "not the twelve anchors"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(change: dict[str, Tensor | None], said: str) -> None:
    state = {**caffe_weights.random_weights(SIZE), **change}
    with pytest.raises(RefusedFile, match=said):
        load_bottom_up_weights(network(), {name: tensor for name, tensor in state.items() if tensor is not None})
