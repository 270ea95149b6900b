"""Random weights of bottom-up attention's detector in the layouts of its two public conversions, and their folder."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from tests.support.caffe_reference import ANCHORS, BOX, RPN, State

CELL_ANCHORS = "proposal_generator.anchor_generator.cell_anchors.0"


@dataclass(frozen=True)
class Size:
    """How large a network is; as published: Size(64, (3, 4, 23, 3), 1600, 400)."""

    width: int = 4
    blocks: tuple[int, ...] = (1, 2, 1, 2)
    num_objects: int = 6
    num_attributes: int = 3


def random_weights(size: Size, seed: int = 0) -> State:
    """A checkpoint's numbers, in MILVLG's layout, that tell places, classes and attributes apart."""
    generator = torch.Generator().manual_seed(seed)
    state: State = {}

    def layer(name: str, *shape: int, gain: float = 1.0, bias: bool = True) -> None:
        spread = gain / math.prod(shape[1:]) ** 0.5
        weight = torch.randn(*shape, generator=generator)
        # Features are positive: without this they would all say much the same.
        state[f"{name}.weight"] = (weight - weight.mean(1, keepdim=True)) * spread
        if bias:
            state[f"{name}.bias"] = torch.randn(shape[0], generator=generator) * 0.1

    def normed(name: str, *shape: int) -> None:
        layer(name, *shape, gain=1.4, bias=False)
        for part, middle in (("weight", 1.0), ("bias", 0.1), ("running_mean", 0.0), ("running_var", 1.0)):
            values = middle + 0.1 * torch.randn(shape[0], generator=generator)
            state[f"{name}.norm.{part}"] = values.abs() if part == "running_var" else values

    width = size.width
    normed("backbone.stem.conv1", width, 3, 7, 7)
    channels = width
    for number, num_blocks in zip((2, 3, 4, 5), size.blocks, strict=True):
        inner = width * 2 ** (number - 2)
        for block in range(num_blocks):
            name = f"{'roi_heads' if number == 5 else 'backbone'}.res{number}.{block}"
            if block == 0:
                normed(f"{name}.shortcut", 4 * inner, channels, 1, 1)
            normed(f"{name}.conv1", inner, channels, 1, 1)
            normed(f"{name}.conv2", inner, inner, 3, 3)
            normed(f"{name}.conv3", 4 * inner, inner, 1, 1)
            channels = 4 * inner
    state["backbone.stem.conv1.weight"] /= 50  # pixels are that wide around their mean
    layer(f"{RPN}.conv", 8 * width, 16 * width, 3, 3, gain=0.3)
    layer(f"{RPN}.objectness_logits", 24, 8 * width, 1, 1, gain=4.0)
    layer(f"{RPN}.anchor_deltas", 48, 8 * width, 1, 1, gain=1.0)
    layer(f"{BOX}.cls_score", size.num_objects + 1, channels, gain=5.0)
    layer(f"{BOX}.bbox_pred", 4 * (size.num_objects + 1), channels)
    layer(f"{BOX}.cls_embed", size.num_objects + 1, 4 * width, bias=False)
    layer(f"{BOX}.attr_linear1", 8 * width, channels + 4 * width, gain=2.0)
    layer(f"{BOX}.attr_linear2", size.num_attributes + 1, 8 * width, gain=1.0)
    state[CELL_ANCHORS] = torch.tensor(ANCHORS, dtype=torch.float32)
    return state


def as_airsplay(state: State) -> State:
    """The numbers in airsplay's layout: none last, one logit an anchor, detectron2's anchors and their order."""
    scales_first = [aspect * 4 + scale for scale in range(4) for aspect in range(3)]
    names = {"cls_embed": "cls_embedding", "attr_linear1": "fc_attr", "attr_linear2": "attr_score"}

    def turned(layer: str, rows: Tensor) -> Tensor:
        if layer == "objectness_logits":
            return (rows[12:] - rows[:12])[scales_first]
        if layer == "anchor_deltas":
            return torch.stack([rows[4 * k : 4 * k + 4] for k in scales_first]).flatten(0, 1)
        if layer in ("cls_score", "cls_embed", "attr_linear2"):
            return torch.cat([rows[1:], rows[:1]])
        return rows[4:] if layer == "bbox_pred" else rows

    out: State = {}
    for name, rows in state.items():
        layer = name.split(".")[-2]
        out[name.replace(layer, names.get(layer, layer))] = turned(layer, rows)
    sides = [(size / ratio**0.5, size * ratio**0.5) for size in (64, 128, 256, 512) for ratio in (0.5, 1, 2)]
    out[CELL_ANCHORS] = torch.tensor([[-w / 2, -h / 2, w / 2, h / 2] for w, h in sides])
    return out
