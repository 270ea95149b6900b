"""The two public PyTorch conversions of bottom-up attention's Caffe weights -> `bottom_up_network.Network`.

Both name what they share alike (detectron2's module tree), and differ in the attribute head's names, in where the
class "none" is, and in one or two logits an anchor. Batch norm is folded into the convolution before it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from models.extractors.bottom_up.network import NUM_ANCHORS, Network
from models.extractors.bottom_up.proposals import ASPECTS, SCALES, cell_anchors
from models.safe_load.restricted_pickle import RefusedFile
from models.safe_load.weight_files import weight_mismatches

EPSILON = 1e-5  # of batch norm, in Caffe and in both conversions
NORM = ("weight", "bias", "running_mean", "running_var")
PROPOSER = "proposal_generator.rpn_head"
PREDICTOR = "roi_heads.box_predictor"
ANCHORS = "proposal_generator.anchor_generator.cell_anchors.0"
UNUSED = ("num_batches_tracked", "pixel_mean", "pixel_std")  # last parts of names that say nothing about the network
ASPECT_MAJOR = tuple(range(NUM_ANCHORS))
SCALE_MAJOR = tuple(scale * len(ASPECTS) + aspect for aspect in range(len(ASPECTS)) for scale in range(len(SCALES)))


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How one conversion names and orders what the two have differently."""

    embedding: str
    attribute_hidden: str
    attributes: str
    none_first: bool
    logits_an_anchor: int
    """1: thing minus no thing; 2: first no thing of all anchors, then thing of all anchors."""
    anchor_order: tuple[int, ...]
    """Where each of our anchors is in a file that does not hold its anchors: the order of the code it is for."""


AIRSPLAY = Layout(
    embedding="cls_embedding",
    attribute_hidden="fc_attr",
    attributes="attr_score",
    none_first=False,
    logits_an_anchor=1,
    anchor_order=SCALE_MAJOR,
)
MILVLG = Layout(
    embedding="cls_embed",
    attribute_hidden="attr_linear1",
    attributes="attr_linear2",
    none_first=True,
    logits_an_anchor=2,
    anchor_order=ASPECT_MAJOR,
)


def fill(network: Network, stored: Mapping[str, Tensor]) -> None:
    """Put a conversion's weights into the network; RefusedFile names every one that does not fit."""
    layout = layout_of(stored)
    expected = published_shapes(network, layout)
    found = {name: tuple(weight.shape) for name, weight in stored.items() if name.rpartition(".")[2] not in UNUSED}
    anchors = found.pop(ANCHORS, (NUM_ANCHORS, 4))
    wrong = weight_mismatches(found, expected)
    if anchors != (NUM_ANCHORS, 4):
        wrong.append(f"{ANCHORS} is {anchors}, not {(NUM_ANCHORS, 4)}")
    if wrong:
        raise RefusedFile(f"these are not the weights of such a detector: {'; '.join(wrong)}")
    network.load_state_dict(translated(network, stored, layout), strict=True)


def layout_of(stored: Mapping[str, Tensor]) -> Layout:
    """Which conversion made the weights, by the name of the embedding of classes."""
    for layout in (AIRSPLAY, MILVLG):
        if f"{PREDICTOR}.{layout.embedding}.weight" in stored:
            return layout
    names = " nor ".join(f"{PREDICTOR}.{layout.embedding}.weight" for layout in (AIRSPLAY, MILVLG))
    raise RefusedFile(f"the weights have neither {names}: no attribute head, or not of a conversion that is known")


def published_name(ours: str, layout: Layout) -> str:
    """Our name of a layer -> the conversion's."""
    heads = {
        "backbone.stem": "backbone.stem.conv1",
        "proposer": f"{PROPOSER}.conv",
        "objectness": f"{PROPOSER}.objectness_logits",
        "deltas": f"{PROPOSER}.anchor_deltas",
        "objects": f"{PREDICTOR}.cls_score",
        "embedding": f"{PREDICTOR}.{layout.embedding}",
        "attribute_hidden": f"{PREDICTOR}.{layout.attribute_hidden}",
        "attributes": f"{PREDICTOR}.{layout.attributes}",
    }
    return heads.get(ours) or (f"roi_heads.{ours}" if ours.startswith("res5.") else ours)


def published_shapes(network: Network, layout: Layout) -> dict[str, tuple[int, ...]]:
    """Every name that a conversion's file must hold, and the shape under it."""
    num_boxed = network.objects.out_features - (0 if layout.none_first else 1)
    shapes: dict[str, tuple[int, ...]] = {
        f"{PREDICTOR}.bbox_pred.weight": (4 * num_boxed, network.feature_dim),
        f"{PREDICTOR}.bbox_pred.bias": (4 * num_boxed,),
    }
    for ours, layer in layers(network).items():
        name = published_name(ours, layout)
        weight = layer.get_parameter("weight")
        num_rows = len(weight) * (layout.logits_an_anchor if ours == "objectness" else 1)
        shapes[f"{name}.weight"] = (num_rows, *weight.shape[1:])
        if normalised(ours):
            shapes |= {f"{name}.norm.{part}": (num_rows,) for part in NORM}
        elif not isinstance(layer, nn.Embedding):
            shapes[f"{name}.bias"] = (num_rows,)
    return shapes


def layers(network: Network) -> dict[str, nn.Module]:
    """The layers with weights, by our names."""
    named = network.named_modules()
    return {name: layer for name, layer in named if isinstance(layer, nn.Conv2d | nn.Linear | nn.Embedding)}


def normalised(ours: str) -> bool:
    """Whether the conversions have a batch norm after this layer."""
    return ours.startswith(("backbone.", "res5."))


def translated(network: Network, stored: Mapping[str, Tensor], layout: Layout) -> dict[str, Tensor]:
    """Our names -> tensors in our order: class "none" first, one logit an anchor, our anchors."""
    order = anchor_order(stored, layout)
    state: dict[str, Tensor] = {}
    for ours in layers(network):
        name = published_name(ours, layout)
        parts = {part: stored[f"{name}.{part}"] for part in ("weight", "bias") if f"{name}.{part}" in stored}
        if normalised(ours):
            parts = folded(parts["weight"], *(stored[f"{name}.norm.{part}"] for part in NORM))
        state |= {f"{ours}.{part}": _reordered(ours, tensor, layout, order) for part, tensor in parts.items()}
    return state


def _reordered(ours: str, rows: Float[Tensor, "O ..."], layout: Layout, order: Int64[Tensor, "12"]) -> Tensor:
    if ours == "objectness":
        return (rows if layout.logits_an_anchor == 1 else rows[NUM_ANCHORS:] - rows[:NUM_ANCHORS])[order]
    if ours == "deltas":
        return rows.view(NUM_ANCHORS, 4, *rows.shape[1:])[order].flatten(0, 1)
    if ours in ("objects", "embedding", "attributes") and not layout.none_first:
        return rows.roll(1, 0)
    return rows


def folded(
    weight: Float[Tensor, "O I h w"],
    scale: Float[Tensor, " O"],
    shift: Float[Tensor, " O"],
    mean: Float[Tensor, " O"],
    variance: Float[Tensor, " O"],
) -> dict[str, Tensor]:
    """A convolution that does what it and the batch norm after it did."""
    scale = scale / (variance + EPSILON).sqrt()
    return {"weight": weight * scale[:, None, None, None], "bias": shift - mean * scale}


def anchor_order(stored: Mapping[str, Tensor], layout: Layout) -> Int64[Tensor, "12"]:
    """Where each of our anchors is among the file's: by their sides where the file holds its anchors.

    Only the order is the file's: the numbers are always those that the weights were trained with.
    """
    if ANCHORS not in stored:
        return torch.tensor(layout.anchor_order)
    theirs, ours = ((boxes[:, 2:] - boxes[:, :2]).log() for boxes in (stored[ANCHORS], cell_anchors()))
    order = torch.cdist(ours, theirs).argmin(1)
    if len(set(order.tolist())) != NUM_ANCHORS:
        raise RefusedFile(f"{ANCHORS} are not the twelve anchors of bottom-up attention: {stored[ANCHORS].tolist()}")
    return order
