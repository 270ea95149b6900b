"""Backbones: from pixels to maps at strides 8, 16 and 32, with ImageNet weights and folded batch norm."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from jaxtyping import Float, UInt8
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.nn.utils.fusion import fuse_conv_bn_weights

from models.safe_load.weight_files import load_weights, read_safetensors
from models.whole_files import write_tensors

STRIDE = 32  # heights and widths of pictures must be multiples of it
MIDDLE_STRIDE = 16
BACKBONE_FEATURE_DIM = 1280
BACKBONE_FILE = "backbone.safetensors"  # in the folder of a tuning
HEAD_FILE = "head.safetensors"  # the trained layers above a backbone, in the folder of its tuning


class Maps(NamedTuple):
    """Feature maps of a batch of pictures of one size; the architecture decides the channels of each."""

    stride8: Float[Tensor, "K C8 H W"]
    stride16: Float[Tensor, "K C16 h w"]
    stride32: Float[Tensor, "K C32 i j"]


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """The description of a kind of backbone."""

    layers: Callable[[], nn.Sequential]
    """Builds the untrained layers, with batch norm; convolutions of stride 2 and kernel k are padded by (k - 1) // 2 on
    both sides."""
    read: Callable[[Path], Mapping[str, Tensor]]
    """Reads the state dict of `layers` from a published file."""
    ends: tuple[int, int]
    """Numbers of layers up to the maps of stride 8 and 16; the map of stride 32 is the last layer's input."""
    channels: tuple[int, int, int]
    """Channels of the three maps."""
    read_classifier: Callable[[Path], tuple[Tensor, Tensor]]
    """Weights [1000, 1280] and biases [1000] of the published ImageNet classifier, over the mean of the last map."""
    pixel_scale: float
    """The weights were trained on (value - 127) / pixel_scale."""


class Backbone(nn.Module):
    """Convolutional layers, and the maps of three strides that they compute."""

    def __init__(self, architecture: Architecture, features: nn.Sequential) -> None:
        super().__init__()
        self.architecture = architecture
        self.channels = dict(zip(Maps._fields, architecture.channels, strict=True))
        self.features = features

    def normalise(self, pixels: UInt8[Tensor, "K 3 H W"]) -> Float[Tensor, "K 3 H W"]:
        """Pixel values scaled as in the training of the weights."""
        return (pixels.float() - 127.0) / self.architecture.pixel_scale

    def forward(self, pixels: Float[Tensor, "K 3 H W"]) -> Maps:
        """Maps of normalised pixels; H and W multiples of 32."""
        eighth, sixteenth = self.architecture.ends
        stride8 = self.features[:eighth](pixels)
        stride16 = self.features[eighth:sixteenth](stride8)
        return Maps(stride8, stride16, self.features[sixteenth:-1](stride16))

    def widen(self, stride32: Float[Tensor, "N C H W"]) -> Float[Tensor, "N 1280 H W"]:
        """The map after the last 1x1 convolution, which ImageNet's classifier averages."""
        wide: Tensor = self.features[-1](stride32)
        return wide

    def last_stage(self, stride16: Float[Tensor, "N C H W"]) -> Float[Tensor, "N 1280 h w"]:
        """The last map, from one of stride 16 or a region cut out of one; H and W are even."""
        wide: Tensor = self.features[self.architecture.ends[1] :](stride16)
        return wide

    def save(self, file: Path) -> None:
        """Write the weights, as fp32, in a file that `read_backbone` reads."""
        write_tensors(file, self.features.state_dict())


def untrained_backbone(architecture: Architecture) -> Backbone:
    """A backbone with random weights."""
    return Backbone(architecture, fold_batch_norm(with_same_padding(architecture.layers())))


def read_backbone(architecture: Architecture, file: Path) -> Backbone:
    """A backbone with the weights in `file`, published ones or those of `Backbone.save`. Raises
    RefusedFile for any other content."""
    stored = read_safetensors(file) if file.suffix == ".safetensors" else {}
    if stored and not any(name.endswith("running_mean") for name in stored):
        backbone = untrained_backbone(architecture)
        load_weights(backbone.features, stored, f"this backbone, which {file} is to hold")
        return backbone
    return Backbone(architecture, fold_batch_norm(read_layers(architecture, file)))


def read_layers(architecture: Architecture, file: Path) -> nn.Sequential:
    """The layers, batch norm included, with the published weights in `file`. Raises RefusedFile for any other
    content."""
    layers = architecture.layers()
    load_weights(layers, architecture.read(file), f"this backbone, which {file} is to hold")
    return with_same_padding(layers).eval()


class SameConv2d(nn.Conv2d):
    """A convolution of stride 2 that pads even sides like TensorFlow: by k - 2 cells, an odd one after the input."""

    @property
    def around(self) -> tuple[int, int, int, int]:
        """Padding cells left, right, above and below."""
        (height, width) = ((side - 2) // 2 for side in self.kernel_size)
        return width, self.kernel_size[1] - 2 - width, height, self.kernel_size[0] - 2 - height

    def forward(self, input: Tensor) -> Tensor:
        padded: Tensor = self._conv_forward(pad(input, self.around), self.weight, self.bias)
        return padded


def with_same_padding(layers: nn.Sequential) -> nn.Sequential:
    """The layers, changed in place: convolutions of stride 2 pad like TensorFlow, as the published weights need."""
    for parent in [module for module in layers.modules() if isinstance(module, nn.Sequential)]:
        for index, layer in enumerate(parent):
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
                parent[index] = same
    return layers


def fold_batch_norm(layers: nn.Sequential) -> nn.Sequential:
    """The layers, changed in place: batch norm, as in evaluation, is folded into the convolutions before it."""
    for parent in [module for module in layers.modules() if isinstance(module, nn.Sequential)]:
        for index, (layer, following) in enumerate(zip(list(parent), list(parent)[1:], strict=False)):
            if isinstance(layer, nn.Conv2d) and isinstance(following, nn.BatchNorm2d):
                layer.weight, layer.bias = _folded(layer, following)
                parent[index + 1] = nn.Identity()
    return layers.eval()


def _folded(layer: nn.Conv2d, norm: nn.BatchNorm2d) -> tuple[nn.Parameter, nn.Parameter]:
    """Weight and bias of the convolution that equals both layers in evaluation."""
    mean, variance = norm.running_mean, norm.running_var
    assert mean is not None
    assert variance is not None
    return fuse_conv_bn_weights(layer.weight, layer.bias, mean, variance, norm.eps, norm.weight, norm.bias)
