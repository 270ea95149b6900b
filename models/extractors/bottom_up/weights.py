"""Loading of the two public PyTorch conversions of bottom-up attention's Caffe weights into `network.BottomUpNetwork`.

Most names are equal in both (detectron2's module tree). They differ in the attribute head's names, in the place of the
class "none", and in one or two logits per anchor. Batch norm is folded into the convolution before it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from models.extractors.bottom_up.network import NUM_ANCHORS, BottomUpNetwork
from models.extractors.bottom_up.proposals import ANCHOR_ASPECT_RATIOS, ANCHOR_SCALES, cell_anchors
from models.safe_load.restricted_pickle import RefusedFile
from models.safe_load.weight_files import weight_mismatches

NORM_EPSILON = 1e-5  # of batch norm, in Caffe and in both conversions
NORM_PARTS = ("weight", "bias", "running_mean", "running_var")
PROPOSER = "proposal_generator.rpn_head"
PREDICTOR = "roi_heads.box_predictor"
ANCHORS = "proposal_generator.anchor_generator.cell_anchors.0"
IGNORED = ("num_batches_tracked", "pixel_mean", "pixel_std")  # last parts of the names of surplus entries
ASPECT_MAJOR = tuple(range(NUM_ANCHORS))
SCALE_MAJOR = tuple(
    scale * len(ANCHOR_ASPECT_RATIOS) + aspect
    for aspect in range(len(ANCHOR_ASPECT_RATIOS))
    for scale in range(len(ANCHOR_SCALES))
)


@dataclass(frozen=True, kw_only=True)
class ConversionLayout:
    """The names and orders of one conversion, where the two differ."""

    embedding: str
    attribute_hidden: str
    attributes: str
    none_first: bool
    logits_an_anchor: int
    """1: object minus background; 2: first background of all anchors, then object of all anchors."""
    anchor_order: tuple[int, ...]
    """The index of each of our anchors in a file without anchors: their order in the code that it is for."""


AIRSPLAY = ConversionLayout(
    embedding="cls_embedding",
    attribute_hidden="fc_attr",
    attributes="attr_score",
    none_first=False,
    logits_an_anchor=1,
    anchor_order=SCALE_MAJOR,
)
MILVLG = ConversionLayout(
    embedding="cls_embed",
    attribute_hidden="attr_linear1",
    attributes="attr_linear2",
    none_first=True,
    logits_an_anchor=2,
    anchor_order=ASPECT_MAJOR,
)


def load_bottom_up_weights(network: BottomUpNetwork, stored: Mapping[str, Tensor]) -> None:
    """Load a conversion's weights into the network. Raises RefusedFile, which names every one that does not fit."""
    layout = layout_of(stored)
    expected = conversion_shapes(network, layout)
    found = {name: tuple(weight.shape) for name, weight in stored.items() if name.rpartition(".")[2] not in IGNORED}
    anchors = found.pop(ANCHORS, (NUM_ANCHORS, 4))
    wrong = weight_mismatches(found, expected)
    if anchors != (NUM_ANCHORS, 4):
        wrong.append(f"{ANCHORS} is {anchors}, not {(NUM_ANCHORS, 4)}")
    if wrong:
        raise RefusedFile(f"these are not the weights of such a detector: {'; '.join(wrong)}")
    network.load_state_dict(to_our_names(network, stored, layout), strict=True)


def layout_of(stored: Mapping[str, Tensor]) -> ConversionLayout:
    """The conversion that made the weights, by the name of the class embedding. Raises RefusedFile if it is neither."""
    for layout in (AIRSPLAY, MILVLG):
        if f"{PREDICTOR}.{layout.embedding}.weight" in stored:
            return layout
    names = " nor ".join(f"{PREDICTOR}.{layout.embedding}.weight" for layout in (AIRSPLAY, MILVLG))
    raise RefusedFile(f"the weights have neither {names}: no attribute head, or not of a conversion that is known")


def conversion_name(ours: str, layout: ConversionLayout) -> str:
    """The conversion's name of the layer that we call `ours`."""
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


def conversion_shapes(network: BottomUpNetwork, layout: ConversionLayout) -> dict[str, tuple[int, ...]]:
    """The shape of every weight that a conversion's file must hold, by its name there."""
    num_boxed = network.objects.out_features - (0 if layout.none_first else 1)
    shapes: dict[str, tuple[int, ...]] = {
        f"{PREDICTOR}.bbox_pred.weight": (4 * num_boxed, network.feature_dim),
        f"{PREDICTOR}.bbox_pred.bias": (4 * num_boxed,),
    }
    for ours, layer in weighted_layers(network).items():
        name = conversion_name(ours, layout)
        weight = layer.get_parameter("weight")
        num_rows = len(weight) * (layout.logits_an_anchor if ours == "objectness" else 1)
        shapes[f"{name}.weight"] = (num_rows, *weight.shape[1:])
        if has_batch_norm(ours):
            shapes |= {f"{name}.norm.{part}": (num_rows,) for part in NORM_PARTS}
        elif not isinstance(layer, nn.Embedding):
            shapes[f"{name}.bias"] = (num_rows,)
    return shapes


def weighted_layers(network: BottomUpNetwork) -> dict[str, nn.Module]:
    """The layers with weights, by our names."""
    named = network.named_modules()
    return {name: layer for name, layer in named if isinstance(layer, nn.Conv2d | nn.Linear | nn.Embedding)}


def has_batch_norm(ours: str) -> bool:
    """Whether the conversions have a batch norm after this layer."""
    return ours.startswith(("backbone.", "res5."))


def to_our_names(network: BottomUpNetwork, stored: Mapping[str, Tensor], layout: ConversionLayout) -> dict[str, Tensor]:
    """The state dict of our network: class "none" first, one logit an anchor, anchors in our order."""
    order = anchor_order(stored, layout)
    state: dict[str, Tensor] = {}
    for ours in weighted_layers(network):
        name = conversion_name(ours, layout)
        parts = {part: stored[f"{name}.{part}"] for part in ("weight", "bias") if f"{name}.{part}" in stored}
        if has_batch_norm(ours):
            parts = fold_norm(parts["weight"], *(stored[f"{name}.norm.{part}"] for part in NORM_PARTS))
        state |= {f"{ours}.{part}": _reordered(ours, tensor, layout, order) for part, tensor in parts.items()}
    return state


def _reordered(ours: str, rows: Float[Tensor, "O ..."], layout: ConversionLayout, order: Int64[Tensor, "12"]) -> Tensor:
    if ours == "objectness":
        return (rows if layout.logits_an_anchor == 1 else rows[NUM_ANCHORS:] - rows[:NUM_ANCHORS])[order]
    if ours == "deltas":
        return rows.view(NUM_ANCHORS, 4, *rows.shape[1:])[order].flatten(0, 1)
    if ours in ("objects", "embedding", "attributes") and not layout.none_first:
        return rows.roll(1, 0)
    return rows


def fold_norm(
    weight: Float[Tensor, "O I h w"],
    scale: Float[Tensor, " O"],
    shift: Float[Tensor, " O"],
    mean: Float[Tensor, " O"],
    variance: Float[Tensor, " O"],
) -> dict[str, Tensor]:
    """Weight and bias of the one convolution that equals a convolution and the batch norm after it."""
    scale = scale / (variance + NORM_EPSILON).sqrt()
    return {"weight": weight * scale[:, None, None, None], "bias": shift - mean * scale}


def anchor_order(stored: Mapping[str, Tensor], layout: ConversionLayout) -> Int64[Tensor, "12"]:
    """The index of each of our anchors among the file's, found by their sides if the file holds its anchors.

    Only the order is taken from the file: the anchors' sizes are always those of the training.
    """
    if ANCHORS not in stored:
        return torch.tensor(layout.anchor_order)
    theirs, ours = ((boxes[:, 2:] - boxes[:, :2]).log() for boxes in (stored[ANCHORS], cell_anchors()))
    order = torch.cdist(ours, theirs).argmin(1)
    if len(set(order.tolist())) != NUM_ANCHORS:
        raise RefusedFile(f"{ANCHORS} are not the twelve anchors of bottom-up attention: {stored[ANCHORS].tolist()}")
    return order
