"""Linear layers of a frozen network whose weights are arranged for oneDNN once instead of at every call.

A sentence is a dozen rows: with so few, most of a layer's time on a CPU goes into reading and arranging its weights.
PyTorch has the two operations for its compiler; if they are missing, layers stay unchanged.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

TYPICAL_ROWS = 14  # for which the layout is chosen; any number of rows works


class PackedLinear(nn.Module):
    """A linear layer on the CPU that equals `linear` up to rounding."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), TYPICAL_ROWS)
        self.bias = linear.bias.detach()

    def forward(self, vectors: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows E"]:
        output: Tensor = torch.ops.mkldnn._linear_pointwise(vectors, self.packed, self.bias, "none", [], "")
        return output


def pack_linear_layers(module: nn.Module) -> None:
    """Replace every linear layer inside a frozen module on the CPU, which can then be neither moved nor saved."""
    has_onednn = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if not has_onednn or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, PackedLinear(child))
        else:
            pack_linear_layers(child)
