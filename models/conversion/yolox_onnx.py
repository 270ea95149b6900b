"""Conversion of YOLOX-nano's published ONNX file to the weights of `faster_rcnn.yolox`; nothing in it is run."""

from pathlib import Path

import torch
from torch import Tensor, nn

from models.conversion.authors_options import ConversionError
from models.extractors.coco_classes import COCO_CLASSES
from models.extractors.faster_rcnn.yolox import YoloxNano
from models.safe_load.weight_files import read_safetensors
from models.whole_files import write_tensors

YOLOX_FILE = "yolox.safetensors"


def convert_yolox(file: Path, out: Path) -> Path:
    """Write the weights of YOLOX-nano's ONNX file to the folder `out`, as fp32; returns the new file."""
    network = read_yolox(file)
    written = out / YOLOX_FILE
    if written.exists():
        raise FileExistsError(f"{written} is there already")
    out.mkdir(parents=True, exist_ok=True)
    write_tensors(written, network.state_dict())
    return written


def read_yolox(file: Path) -> YoloxNano:
    """YOLOX-nano with the weights in an ONNX file, or in a safetensors file as `regard convert yolox` writes it.

    Raises ConversionError if they are those of another network.
    """
    state = read_safetensors(file) if file.suffix == ".safetensors" else read_yolox_onnx(file)
    network = YoloxNano(len(COCO_CLASSES))
    try:
        network.load_state_dict({name: tensor.float() for name, tensor in state.items()}, strict=True)
    except RuntimeError as fault:
        raise ConversionError(f"{file} does not hold YOLOX-nano's weights: {fault}") from None
    return network.eval().requires_grad_(False)


def read_yolox_onnx(file: Path) -> dict[str, Tensor]:
    """Our name -> weight of every convolution of the graph, whose nodes come in the order of our modules.

    Raises ConversionError if number or shapes of the convolutions differ.
    """
    graph = _convolutions(file)
    ours = [
        (name, layer) for name, layer in YoloxNano(len(COCO_CLASSES)).named_modules() if isinstance(layer, nn.Conv2d)
    ]
    shapes = [tuple(layer.weight.shape) for _, layer in ours]
    if [tuple(weight.shape) for weight, _ in graph] != shapes:
        raise ConversionError(f"{file} does not hold YOLOX-nano: its {len(graph)} convolutions are others")
    state = {}
    for (name, _), (weight, bias) in zip(ours, graph, strict=True):
        state[f"{name}.weight"], state[f"{name}.bias"] = weight, bias
    return state


def _convolutions(file: Path) -> list[tuple[Tensor, Tensor]]:
    """Weights and biases of the graph's convolutions, in the order in which they run."""
    try:
        import onnx  # noqa: PLC0415 - needed for this conversion alone
        from google.protobuf.message import DecodeError  # noqa: PLC0415
        from onnx import numpy_helper  # noqa: PLC0415
    except ImportError:
        raise ConversionError("reading ONNX files needs the package onnx: install regard[train]") from None

    try:
        graph = onnx.load(file, load_external_data=False).graph
        stored = {each.name: each for each in graph.initializer}
        parts = [[stored[name] for name in node.input[1:]] for node in graph.node if node.op_type == "Conv"]
        return [
            (
                torch.from_numpy(numpy_helper.to_array(weight).copy()),
                torch.from_numpy(numpy_helper.to_array(bias).copy()),
            )
            for weight, bias in parts
        ]
    except (DecodeError, KeyError, ValueError, TypeError) as fault:
        raise ConversionError(f"{file} is no ONNX file of YOLOX: {fault}") from None
