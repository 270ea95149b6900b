"""MobileNetV2 (Sandler et al. 2018) as a backbone, from weights in torchvision's layout."""

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor, nn
from torchvision.models import mobilenet_v2

from models.extractors.backbones.base import Architecture
from models.safe_load.weight_files import read_safetensors

CLASSIFIER_KEY = "classifier.1."
PREFIX = "features."


def mobilenet_layers() -> nn.Sequential:
    """The layers under `features` of torchvision's MobileNetV2, untrained."""
    features: nn.Sequential = mobilenet_v2().features
    return features


def read_mobilenet(file: Path) -> Mapping[str, Tensor]:
    """The state dict of the layers from a safetensors file with the keys of torchvision's `mobilenet_v2`."""
    return {
        name.removeprefix(PREFIX): value for name, value in read_safetensors(file).items() if name.startswith(PREFIX)
    }


def read_mobilenet_classifier(file: Path) -> tuple[Tensor, Tensor]:
    """Weights and biases of the ImageNet classifier in a published file. Raises ValueError if it holds none."""
    state = read_safetensors(file)
    if not {f"{CLASSIFIER_KEY}weight", f"{CLASSIFIER_KEY}bias"} <= state.keys():
        raise ValueError(f"{file} holds no ImageNet classifier")
    return state[f"{CLASSIFIER_KEY}weight"], state[f"{CLASSIFIER_KEY}bias"]


MOBILENET_V2 = Architecture(
    layers=mobilenet_layers,
    read=read_mobilenet,
    read_classifier=read_mobilenet_classifier,
    ends=(7, 14),
    channels=(32, 96, 320),
    pixel_scale=127.5,
)
