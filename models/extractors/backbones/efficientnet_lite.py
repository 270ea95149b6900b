"""EfficientNet-Lite as a backbone: EfficientNet (Tan and Le 2019) with ReLU6, without squeeze-and-excitation.

Width and depth grow together from lite0 on; the stem, the last convolution and the number of blocks in the first and
last stage do not.
"""

import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from torch import Tensor, nn
from torchvision.ops.misc import Conv2dNormActivation

from models.extractors.backbones.base import BACKBONE_FEATURE_DIM, Architecture
from models.safe_load.weight_files import read_weights

# Blocks, kernel, stride, expansion and channels of the stages of lite0.
STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
STEM = 32
CHANNELS_MULTIPLE = 8
CLASSIFIER = "_fc."  # in names of the published file


class InvertedResidual(nn.Module):
    """Expansion, depthwise convolution and projection; the input is added if the shapes agree."""

    def __init__(self, channels: int, out: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = channels * expansion
        widen = [_convolution(channels, wide, 1)] if expansion > 1 else []
        each = _convolution(wide, wide, kernel, stride, groups=wide)
        self.layers = nn.Sequential(*widen, each, _convolution(wide, out, 1, activation_layer=None))
        self.adds = stride == 1 and channels == out

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(x)
        return x + out if self.adds else out


_convolution = partial(Conv2dNormActivation, norm_layer=partial(nn.BatchNorm2d, eps=1e-3), activation_layer=nn.ReLU6)


def efficientnet_layers(width: float, depth: float) -> nn.Sequential:
    """The stem, all blocks and the last convolution, untrained."""
    parts: list[nn.Module] = [_convolution(3, STEM, 3, 2)]
    channels = STEM
    for index, (repeats, kernel, stride, expansion, out) in enumerate(STAGES):
        is_fixed = index in (0, len(STAGES) - 1)
        for turn in range(repeats if is_fixed else math.ceil(depth * repeats)):
            out_channels = scale_channels(out, width)
            parts.append(InvertedResidual(channels, out_channels, kernel, 1 if turn else stride, expansion))
            channels = out_channels
    return nn.Sequential(*parts, _convolution(channels, BACKBONE_FEATURE_DIM, 1))


def scale_channels(channels: int, width: float) -> int:
    """The multiple of 8 nearest to `channels` times `width`, never below nine tenths of it."""
    wanted = channels * width
    rounded = max(CHANNELS_MULTIPLE, int(wanted + CHANNELS_MULTIPLE / 2) // CHANNELS_MULTIPLE * CHANNELS_MULTIPLE)
    return rounded if rounded >= 0.9 * wanted else rounded + CHANNELS_MULTIPLE


def read_efficientnet(untrained: nn.Sequential, file: Path) -> Mapping[str, Tensor]:
    """The state dict for `untrained` from a published file, whose entries come in the order of the layers.

    Raises ValueError if they are those of another network.
    """
    theirs = {name: value for name, value in read_weights(file).items() if CLASSIFIER not in name}
    ours = untrained.state_dict()
    fits = len(theirs) == len(ours) and all(
        mine.shape == value.shape and name.rpartition(".")[2] == their.rpartition(".")[2]
        for (name, mine), (their, value) in zip(ours.items(), theirs.items(), strict=True)
    )
    if not fits:
        raise ValueError(f"{file} does not hold the weights of this EfficientNet-Lite")
    return dict(zip(ours, theirs.values(), strict=True))


def read_efficientnet_classifier(file: Path) -> tuple[Tensor, Tensor]:
    """Weights and biases of the ImageNet classifier in a published file. Raises ValueError if it holds none."""
    parts = [value for name, value in read_weights(file).items() if CLASSIFIER in name]
    match sorted(parts, key=lambda value: -value.dim()):
        case [weights, biases]:
            return weights, biases
    raise ValueError(f"{file} holds no ImageNet classifier")


def efficientnet_lite(width: float, depth: float) -> Architecture:
    """The EfficientNet-Lite of a width and a depth, both as multiples of lite0's."""
    blocks = [
        repeats if index in (0, len(STAGES) - 1) else math.ceil(depth * repeats)
        for index, (repeats, *_) in enumerate(STAGES)
    ]
    return Architecture(
        layers=partial(efficientnet_layers, width, depth),
        read=lambda file: read_efficientnet(efficientnet_layers(width, depth), file),
        read_classifier=read_efficientnet_classifier,
        ends=(1 + sum(blocks[:3]), 1 + sum(blocks[:5])),
        channels=(
            scale_channels(STAGES[2][4], width),
            scale_channels(STAGES[4][4], width),
            scale_channels(STAGES[6][4], width),
        ),
        pixel_scale=128.0,
    )


EFFICIENTNET_LITE0 = efficientnet_lite(1.0, 1.0)
EFFICIENTNET_LITE2 = efficientnet_lite(1.1, 1.2)
