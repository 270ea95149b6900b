"""Convolutions for inference, each fused with the activation after it into one call of oneDNN.

PyTorch runs a convolution and its activation separately, rearranges weights in every call, and uses a slower routine
for the 1x1 convolutions of a single picture. The results are equal up to rounding.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from models.extractors.backbones.base import SameConv2d

# Names and settings of activations for oneDNN's operator.
ACTIVATIONS: dict[type[nn.Module], tuple[str, list[float]]] = {
    nn.ReLU: ("relu", []),
    nn.ReLU6: ("hardtanh", [0.0, 6.0]),
    nn.SiLU: ("swish", []),
    nn.Identity: ("none", []),
}
_REORDER = getattr(torch.ops.mkldnn, "_reorder_convolution_weight", None)
_CONVOLVE = getattr(torch.ops.mkldnn, "_convolution_pointwise", None)


class FusedConv2d(nn.Module):
    """A convolution and its activation; the first call arranges the weights for oneDNN and the picture's size."""

    def __init__(self, layer: nn.Conv2d, activation: nn.Module) -> None:
        """Take over the layer. Raises ValueError if oneDNN's operator has no such activation or padding."""
        super().__init__()
        if type(activation) not in ACTIVATIONS or isinstance(layer.padding, str) or layer.padding_mode != "zeros":
            raise ValueError(f"{layer} with {activation} cannot be one operation")
        self.activation = ACTIVATIONS[type(activation)]
        self.stride, self.dilation, self.groups = list(layer.stride), list(layer.dilation), layer.groups
        self.bias = None if layer.bias is None else nn.Parameter(layer.bias.detach(), requires_grad=False)
        weight, self.around, self.padding = layer.weight.detach(), (0, 0, 0, 0), list(layer.padding)
        if isinstance(layer, SameConv2d):
            weight, self.around, self.padding = _with_same_padding(layer)
        self._weight: Tensor | None = weight.contiguous(memory_format=torch.channels_last)
        self._packed: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        x = x.contiguous(memory_format=torch.channels_last)
        if any(self.around):
            x = pad(x, self.around)
        assert _CONVOLVE is not None
        shape = (self.padding, self.stride, self.dilation, self.groups)
        out: Tensor = _CONVOLVE(x, self._arranged_weight(x), self.bias, *shape, *self.activation, "")
        return out

    def _arranged_weight(self, x: Tensor) -> Tensor:
        """The arranged weights, which replace the original ones; two concurrent first calls do the same work twice."""
        original = self._weight
        if original is not None:
            assert _REORDER is not None
            self._packed = _REORDER(original, self.padding, self.stride, self.dilation, self.groups, list(x.shape))
            self._weight = None
        assert self._packed is not None
        return self._packed


def _with_same_padding(layer: SameConv2d) -> tuple[Tensor, tuple[int, int, int, int], list[int]]:
    """Weights, padding beforehand and padding by the operator for TensorFlow's padding: one cell less before.

    A row and a column of zeros before a kernel shift it by one cell, so that the operator can pad both sides equally
    and no map is copied for padding. Kernels over all channels would pay for the zeros, so their maps are copied.
    """
    if layer.groups == 1:
        return layer.weight.detach(), layer.around, [0, 0]
    kernel = pad(layer.weight.detach(), (1, 0, 1, 0))
    return kernel, (0, 0, 0, 0), [side // 2 for side in layer.kernel_size]


def fuse_convolutions(network: nn.Module) -> None:
    """Replace each convolution of a network, and the activation after it in an nn.Sequential, in place.

    The network must be on a CPU, and from then on cannot be trained, saved or moved. Nothing changes if PyTorch is
    built without oneDNN.
    """
    if _CONVOLVE is None or _REORDER is None or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return
    for parent in list(network.modules()):
        children = dict(parent.named_children())
        for name, layer in children.items():
            if isinstance(layer, nn.Conv2d):
                activation = _activation_after(name, children) if isinstance(parent, nn.Sequential) else None
                setattr(parent, name, FusedConv2d(layer, children[activation] if activation else nn.Identity()))
                if activation:
                    setattr(parent, activation, nn.Identity())


def _activation_after(name: str, layers: Mapping[str, nn.Module]) -> str | None:
    """The name of the next layer in a sequence, if it is an activation that can be fused."""
    names = list(layers)
    for following in names[names.index(name) + 1 :]:
        if not isinstance(layers[following], nn.Identity):  # folded batch norm left these
            return following if type(layers[following]) in ACTIVATIONS else None
    return None
