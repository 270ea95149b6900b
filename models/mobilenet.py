"""MobileNetV2 as a backbone: maps at strides 8, 16 and 32 from weights whose batch norm is folded away."""

from pathlib import Path
from typing import NamedTuple

from jaxtyping import Float, UInt8
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.nn.utils.fusion import fuse_conv_bn_eval
from torchvision.models import mobilenet_v2

STRIDE = 32  # heights and widths of pictures must be multiples of it
CHANNELS = {"stride8": 32, "stride16": 96, "stride32": 320}
FEATURE_DIM = 1280
LAST_STAGE = 14  # features[14:] take the stride-16 map to half its size and 1280 channels
LAST_STAGE_STRIDE = 16


class Maps(NamedTuple):
    """Feature maps of a batch of pictures of one size."""

    stride8: Float[Tensor, "K 32 H W"]
    stride16: Float[Tensor, "K 96 h w"]
    stride32: Float[Tensor, "K 320 i j"]


class SameConv2d(nn.Conv2d):
    """A 3x3 convolution of stride 2 that pads even sides as TensorFlow does: nothing before, one after."""

    def forward(self, input: Tensor) -> Tensor:
        padded: Tensor = self._conv_forward(pad(input, (0, 1, 0, 1)), self.weight, self.bias)
        return padded


class MobileNetV2(nn.Module):
    """The convolutions of MobileNetV2, numbered as torchvision's `features`."""

    def __init__(self) -> None:
        super().__init__()
        self.features = _folded(mobilenet_v2().features)

    def forward(self, pixels: Float[Tensor, "K 3 H W"]) -> Maps:
        """Maps of normalised pixels; H and W multiples of 32."""
        stride8 = self.features[:7](pixels)
        stride16 = self.features[7:LAST_STAGE](stride8)
        return Maps(stride8, stride16, self.features[LAST_STAGE:18](stride16))

    def widen(self, stride32: Float[Tensor, "N 320 H W"]) -> Float[Tensor, "N 1280 H W"]:
        """The last 1x1 convolution: what ImageNet's classifier averaged."""
        wide: Tensor = self.features[18](stride32)
        return wide

    def last_stage(self, stride16: Float[Tensor, "N 96 H W"]) -> Float[Tensor, "N 1280 h w"]:
        """From a stride-16 map, or a region cut out of one, to the last map; H and W even."""
        wide: Tensor = self.features[LAST_STAGE:](stride16)
        return wide


def normalised(pixels: UInt8[Tensor, "K 3 H W"]) -> Float[Tensor, "K 3 H W"]:
    """Pixels as the weights were trained on them: (value - 127) / 127.5."""
    return (pixels.float() - 127.0) / 127.5


def read_backbone(file: Path) -> MobileNetV2:
    """A backbone from a safetensors file with the keys of torchvision's `mobilenet_v2`, classifier included."""
    whole = mobilenet_v2()
    whole.load_state_dict(load_file(file))
    backbone = MobileNetV2()
    backbone.features = _folded(whole.features)
    return backbone


def _folded(features: nn.Sequential) -> nn.Sequential:
    """The same layers with batch norm folded into the convolutions and TensorFlow's padding at stride 2."""
    features.eval()
    for parent in [module for module in features.modules() if isinstance(module, nn.Sequential)]:
        for place, (layer, following) in enumerate(zip(list(parent), list(parent)[1:], strict=False)):
            if isinstance(layer, nn.Conv2d) and isinstance(following, nn.BatchNorm2d):
                parent[place] = _same_padded(fuse_conv_bn_eval(layer, following))
                parent[place + 1] = nn.Identity()
    return features


def _same_padded(layer: nn.Conv2d) -> nn.Conv2d:
    if layer.stride != (2, 2):
        return layer
    same = SameConv2d(layer.in_channels, layer.out_channels, layer.kernel_size[0], 2, padding=0, groups=layer.groups)
    same.load_state_dict(layer.state_dict())
    return same
