"""Matrices in a few bits a weight: whole numbers as planes of bits, and a scale for each row.

A row w is stored as whole numbers n, |n| < 2^(bits - 1), and a scale s in half precision, so that w ~ s n. Of 17 scales
from 0.6 to 1 times the least one that clips nothing, s is the one with the least squared error. Plane k holds bit k of
n + 2^(bits - 1) of all weights, eight weights to a byte, so that no bits are wasted.
"""

from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Float, Int8, Int64, UInt8
from torch import Tensor, nn

PLANES, SCALE = ".planes", ".scale"  # endings of the two tensors of a matrix
NUM_SCALES = 17
LEAST_SCALE = 0.6
_SMALLEST_SCALE = 6.1e-5  # of normal numbers in half precision


def quantise_rows(matrix: Float[Tensor, "N D"], bits: int) -> dict[str, Tensor]:
    """The planes, uint8 [bits, N, D / 8], and scales, fp16 [N], of a matrix whose D is a multiple of 8."""
    if matrix.shape[1] % 8:
        raise ValueError(f"rows of {matrix.shape[1]} numbers cannot be packed: it must be a multiple of 8")
    largest = 2 ** (bits - 1) - 1
    exact = matrix.abs().amax(1) / largest
    best_scale, best_error = torch.empty(0), torch.full((len(matrix),), torch.inf)
    for share in torch.linspace(1, LEAST_SCALE, NUM_SCALES):
        scale = (exact * share).half().float().clamp_min(_SMALLEST_SCALE)
        error = (_whole_numbers(matrix, scale, largest) * scale[:, None] - matrix).square().sum(1)
        best_scale = torch.where(error < best_error, scale, best_scale) if len(best_scale) else scale
        best_error = torch.minimum(error, best_error)
    shifted = (_whole_numbers(matrix, best_scale, largest) + largest + 1).to(torch.uint8).numpy()
    planes = np.stack([np.packbits((shifted >> bit) & 1, axis=1) for bit in range(bits)])
    return {PLANES: torch.from_numpy(planes), SCALE: best_scale.half()}


def dequantise_rows(planes: Tensor, scale: Tensor) -> Float[Tensor, "N D"]:
    """The matrix from the planes and scales of `quantise_rows`."""
    return _shifted(planes).float().sub_(2 ** (len(planes) - 1)).mul_(scale.float()[:, None])


def whole_rows(planes: Tensor) -> Int8[Tensor, "N D"]:
    """The whole numbers n from planes of at most 8 bits."""
    return _shifted(planes).to(torch.int16).sub_(2 ** (len(planes) - 1)).to(torch.int8)


def _shifted(planes: Tensor) -> UInt8[Tensor, "N D"]:
    shifted = np.zeros((planes.shape[1], planes.shape[2] * 8), np.uint8)
    for bit, plane in enumerate(planes.numpy()):
        shifted |= np.unpackbits(plane, axis=1) << bit
    return torch.from_numpy(shifted)


def dequantise_all(stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Name -> tensor, from tensors of which some are stored as planes and scales; floating-point ones in float32."""
    matrices = [name.removesuffix(PLANES) for name in stored if name.endswith(PLANES)]
    parts = {name + ending for name in matrices for ending in (PLANES, SCALE)}
    plain = {name: t.float() if t.is_floating_point() else t for name, t in stored.items() if name not in parts}
    return plain | {name: dequantise_rows(stored[name + PLANES], stored[name + SCALE]) for name in matrices}


def quantise_matrices(state: Mapping[str, Tensor], bits: int) -> dict[str, Tensor]:
    """Tensors in the form that `dequantise_all` reads; matrices whose row length is a multiple of 8 in few bits."""
    stored: dict[str, Tensor] = {}
    for name, tensor in state.items():
        if tensor.dim() == 2 and tensor.shape[1] % 8 == 0 and tensor.is_floating_point():
            stored |= {name + ending: part for ending, part in quantise_rows(tensor.float().cpu(), bits).items()}
        else:
            stored[name] = tensor
    return stored


def stored_shape(stored: Mapping[str, Tensor], name: str) -> tuple[int, int]:
    """Rows and columns of a matrix that may be stored as planes and scales. Raises KeyError if it is not stored."""
    if name + PLANES in stored:
        _, rows, eighths = stored[name + PLANES].shape
        return rows, 8 * eighths
    rows, columns = stored[name].shape
    return rows, columns


class QuantisedEmbedding(nn.Module):
    """A frozen embedding whose rows stay quantised until they are used.

    Its planes may be in a file that several processes have mapped.
    """

    planes: UInt8[Tensor, "bits N D/8"]
    scale: Float[Tensor, " N"]

    def __init__(self, planes: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.register_buffer("planes", planes)
        self.register_buffer("scale", scale)

    def forward(self, ids: Int64[Tensor, "*shape"]) -> Float[Tensor, "*shape D"]:
        rows = ids.flatten()
        return dequantise_rows(self.planes[:, rows], self.scale[rows]).view(*ids.shape, 8 * self.planes.shape[2])


def _whole_numbers(matrix: Float[Tensor, "N D"], scale: Float[Tensor, " N"], largest: int) -> Float[Tensor, "N D"]:
    return (matrix / scale[:, None]).round().clamp(-largest, largest)
