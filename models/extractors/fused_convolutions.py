"""Convolutions of a network that is not trained any more, each with the activation after it, in one call of oneDNN.

PyTorch runs a convolution and its activation one after the other, has weights laid out anew in every call, and gives a
single picture's 1x1 convolutions to a slower routine. All of these compute the same, up to rounding.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from models.extractors.backbones.base import SameConv2d

# Names and settings of activations as oneDNN's operator takes them.
ACTIVATIONS: dict[type[nn.Module], tuple[str, list[float]]] = {
    nn.ReLU: ("relu", []),
    nn.ReLU6: ("hardtanh", [0.0, 6.0]),
    nn.SiLU: ("swish", []),
    nn.Identity: ("none", []),
}
_REORDER = getattr(torch.ops.mkldnn, "_reorder_convolution_weight", None)
_CONVOLVE = getattr(torch.ops.mkldnn, "_convolution_pointwise", None)


class FusedConv2d(nn.Module):
    """A convolution and its activation; weights are laid out as oneDNN reads them for the first picture that comes."""

    def __init__(self, layer: nn.Conv2d, activation: nn.Module) -> None:
        """ValueError where oneDNN's operator has no such activation or padding."""
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
        out: Tensor = _CONVOLVE(x, self._laid_out(x), self.bias, *shape, *self.activation, "")
        return out

    def _laid_out(self, x: Tensor) -> Tensor:
        """The weights; those as they were given are forgotten. Two threads that come first do the same work twice."""
        given = self._weight
        if given is not None:
            assert _REORDER is not None
            self._packed = _REORDER(given, self.padding, self.stride, self.dilation, self.groups, list(x.shape))
            self._weight = None
        assert self._packed is not None
        return self._packed


def _with_same_padding(layer: SameConv2d) -> tuple[Tensor, tuple[int, int, int, int], list[int]]:
    """Weights, what is padded beforehand and what the operator pads, as TensorFlow pads: one cell less before.

    With a row and a column of zeros before it, a kernel begins one cell earlier, so that the operator can pad both
    sides alike, and no map is copied only to be padded. Maps before kernels over all channels are, since these would
    pay for their zeros.
    """
    if layer.groups == 1:
        return layer.weight.detach(), layer.around, [0, 0]
    kernel = pad(layer.weight.detach(), (1, 0, 1, 0))
    return kernel, (0, 0, 0, 0), [side // 2 for side in layer.kernel_size]


def fuse_convolutions(network: nn.Module) -> None:
    """Replace each convolution of a network, and the activation after it in an nn.Sequential, in place.

    The network lies on a CPU and is used without gradients from then on; it can neither be saved nor moved. Nothing
    changes where PyTorch is built without oneDNN.
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
    """The name of the layer that follows one of a sequence, if it is an activation that can be fused."""
    names = list(layers)
    for following in names[names.index(name) + 1 :]:
        if not isinstance(layers[following], nn.Identity):  # folded batch norm left these
            return following if type(layers[following]) in ACTIVATIONS else None
    return None
