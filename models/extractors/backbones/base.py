"""Backbones: pixels to maps at strides 8, 16 and 32, from ImageNet weights whose batch norm is folded away."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from jaxtyping import Float, UInt8
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.nn.utils.fusion import fuse_conv_bn_eval

STRIDE = 32  # heights and widths of pictures must be multiples of it
MIDDLE_STRIDE = 16
FEATURE_DIM = 1280


class Maps(NamedTuple):
    """Feature maps of a batch of pictures of one size; how many channels each has is the architecture's."""

    stride8: Float[Tensor, "K C8 H W"]
    stride16: Float[Tensor, "K C16 h w"]
    stride32: Float[Tensor, "K C32 i j"]


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """What distinguishes one backbone from another."""

    layers: Callable[[], nn.Sequential]
    """Untrained, with batch norm; stride-2 convolutions of kernel k padded by (k - 1) // 2 on both sides."""
    read: Callable[[Path], Mapping[str, Tensor]]
    """The state of `layers` from a file as it was published."""
    ends: tuple[int, int]
    """The layers after which the maps of stride 8 and 16 are taken; that of stride 32 comes before the last layer."""
    channels: tuple[int, int, int]
    """Of the three maps."""
    pixel_scale: float
    """The weights were trained on (value - 127) / pixel_scale."""


class Backbone(nn.Module):
    """Convolutions alone: batch norm, if given, has been folded into them."""

    def __init__(self, architecture: Architecture, features: nn.Sequential) -> None:
        super().__init__()
        self.architecture = architecture
        self.channels = dict(zip(Maps._fields, architecture.channels, strict=True))
        self.features = features

    def normalised(self, pixels: UInt8[Tensor, "K 3 H W"]) -> Float[Tensor, "K 3 H W"]:
        """Pixels as the weights were trained on them."""
        return (pixels.float() - 127.0) / self.architecture.pixel_scale

    def forward(self, pixels: Float[Tensor, "K 3 H W"]) -> Maps:
        """Maps of normalised pixels; H and W multiples of 32."""
        eighth, sixteenth = self.architecture.ends
        stride8 = self.features[:eighth](pixels)
        stride16 = self.features[eighth:sixteenth](stride8)
        return Maps(stride8, stride16, self.features[sixteenth:-1](stride16))

    def widen(self, stride32: Float[Tensor, "N C H W"]) -> Float[Tensor, "N 1280 H W"]:
        """The last 1x1 convolution: what ImageNet's classifier averaged."""
        wide: Tensor = self.features[-1](stride32)
        return wide

    def last_stage(self, stride16: Float[Tensor, "N C H W"]) -> Float[Tensor, "N 1280 h w"]:
        """From a stride-16 map, or a region cut out of one, to the last map; H and W even."""
        wide: Tensor = self.features[self.architecture.ends[1] :](stride16)
        return wide

    def save(self, file: Path) -> None:
        """Writes the weights, fp32, as `read_backbone` reads them."""
        save_file({name: tensor.contiguous().cpu() for name, tensor in self.features.state_dict().items()}, file)


def untrained(architecture: Architecture) -> Backbone:
    """A backbone with random weights."""
    return Backbone(architecture, folded(same_padded(architecture.layers())))


def read_backbone(architecture: Architecture, file: Path) -> Backbone:
    """A backbone with the weights in `file`: as they were published, or as `Backbone.save` wrote them."""
    if file.suffix == ".safetensors" and not any(name.endswith("running_mean") for name in load_file(file)):
        backbone = untrained(architecture)
        backbone.features.load_state_dict(load_file(file))
        return backbone
    return Backbone(architecture, folded(read_layers(architecture, file)))


def read_layers(architecture: Architecture, file: Path) -> nn.Sequential:
    """The layers with batch norm and the published weights in `file`."""
    layers = architecture.layers()
    layers.load_state_dict(architecture.read(file))
    return same_padded(layers).eval()


class SameConv2d(nn.Conv2d):
    """A convolution of stride 2 that pads even sides as TensorFlow does: the odd one of k - 2 cells comes after."""

    def forward(self, input: Tensor) -> Tensor:
        (height, width) = ((side - 2) // 2 for side in self.kernel_size)
        around = (width, self.kernel_size[1] - 2 - width, height, self.kernel_size[0] - 2 - height)
        padded: Tensor = self._conv_forward(pad(input, around), self.weight, self.bias)
        return padded


def same_padded(layers: nn.Sequential) -> nn.Sequential:
    """The same layers with TensorFlow's padding at stride 2, as the published weights were trained with."""
    for parent in [module for module in layers.modules() if isinstance(module, nn.Sequential)]:
        for place, layer in enumerate(parent):
            if isinstance(layer, nn.Conv2d) and layer.stride == (2, 2):
                kernel = layer.kernel_size[0]
                same = SameConv2d(
                    layer.in_channels,
                    layer.out_channels,
                    kernel,
                    2,
                    padding=0,
                    groups=layer.groups,
                    bias=layer.bias is not None,
                )
                same.load_state_dict(layer.state_dict())
                parent[place] = same
    return layers


def folded(layers: nn.Sequential) -> nn.Sequential:
    """A copy of the layers with batch norm, as it is in evaluation, folded into the convolutions before it."""
    layers = copy.deepcopy(layers).eval()
    for parent in [module for module in layers.modules() if isinstance(module, nn.Sequential)]:
        for place, (layer, following) in enumerate(zip(list(parent), list(parent)[1:], strict=False)):
            if isinstance(layer, nn.Conv2d) and isinstance(following, nn.BatchNorm2d):
                parent[place] = fuse_conv_bn_eval(layer, following)
                parent[place + 1] = nn.Identity()
    return layers
