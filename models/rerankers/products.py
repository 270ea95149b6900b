"""Products of many rows with a matrix, by oneDNN if possible: on other processors than Intel's it takes less than half
the time of MKL, which PyTorch would call."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear

# Multiply-adds from which the faster product outweighs the call's overhead, 20 us.
_FEWEST = 1 << 20
ONEDNN_PRODUCT = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
"""None if PyTorch is built without oneDNN."""
_is_used = ContextVar("_is_used", default=True)


@contextmanager
def published_products() -> Iterator[None]:
    """Let PyTorch compute every product in this block, as in published code: for comparisons."""
    token = _is_used.set(False)
    try:
        yield
    finally:
        _is_used.reset(token)


def product_of_rows(
    rows: Float[Tensor, "*rows D"], matrix: Float[Tensor, "N D"], bias: Float[Tensor, " N"] | None = None
) -> Float[Tensor, "*rows N"]:
    """rows @ matrix.T + bias"""
    if not _suits_onednn(rows, matrix, bias):
        return linear(rows, matrix, bias)
    assert ONEDNN_PRODUCT is not None
    product: Tensor = ONEDNN_PRODUCT(rows, matrix, bias, "none", [], "")
    return product


def _suits_onednn(rows: Tensor, matrix: Tensor, bias: Tensor | None) -> bool:
    """Whether oneDNN can compute this product: without gradient, in float32 on a CPU, and large enough."""
    return (
        rows.numel() * len(matrix) >= _FEWEST
        and rows.device.type == "cpu"
        and rows.dtype == matrix.dtype == torch.float32
        and not (torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (rows, matrix, bias)))
        and rows.is_contiguous()
        and matrix.is_contiguous()
        and type(rows) is Tensor  # not a fake tensor without numbers
        and not torch._C._are_functorch_transforms_active()
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and ONEDNN_PRODUCT is not None
        and _is_used.get()
    )


class Linear(nn.Linear):
    """A linear layer by `product_of_rows`."""

    def forward(self, rows: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows N"]:
        return product_of_rows(rows, self.weight, self.bias)
