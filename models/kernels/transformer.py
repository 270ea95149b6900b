"""Layers of a sentence encoder, computed by a kernel from weights of one byte each."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int8
from torch import Tensor, nn

from models.kernels.forms import BLOCK

MOST_PIECES = 96  # of sentences that are computed together: their numbers stay in the second-level cache


class CLinear(ctypes.Structure):
    """`linear` of source/transformer.h."""

    _fields_ = (
        ("packed", ctypes.c_void_p),
        ("scale", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("inputs", ctypes.c_int32),
        ("outputs", ctypes.c_int32),
    )


class CLayerNorm(ctypes.Structure):
    """`layer_norm` of source/transformer.h."""

    _fields_ = (("scale", ctypes.c_void_p), ("shift", ctypes.c_void_p))


class CLayer(ctypes.Structure):
    """`transformer_layer` of source/transformer.h."""

    _fields_ = (
        *((name, CLinear) for name in ("query_key_value", "mix", "widen", "narrow")),
        *((name, CLayerNorm) for name in ("attention_norm", "output_norm")),
    )


class CTransformer(ctypes.Structure):
    """`transformer` of source/transformer.h."""

    _fields_ = (
        ("layers", ctypes.c_void_p),
        *((name, ctypes.c_int32) for name in ("number", "width", "hidden", "heads")),
        ("epsilon", ctypes.c_float),
    )


@runtime_checkable
class TransformerKernels(Protocol):
    """Kernels that compute these layers."""

    def transform(
        self, layers: CTransformer, states: Float[Tensor, "N D"], lengths: Sequence[int], threads: int
    ) -> None:
        """Replace the states of sentences' pieces by the last layer's; sentences of these lengths are consecutive."""


@dataclass(frozen=True)
class ByteLinear:
    """A linear layer y = scale (W x) + bias whose weights W are whole numbers."""

    numbers: Int8[Tensor, "E D"]
    scale: Float[Tensor, " E"]
    bias: Float[Tensor, " E"]

    @classmethod
    def joined(cls, layers: Sequence["ByteLinear"]) -> "ByteLinear":
        """One layer with the concatenated outputs of several layers of the same input."""
        return cls(
            torch.cat([layer.numbers for layer in layers]),
            torch.cat([layer.scale for layer in layers]),
            torch.cat([layer.bias for layer in layers]),
        )

    @property
    def weight(self) -> Float[Tensor, "E D"]:
        """The weight matrix as floats."""
        return self.numbers.float().mul_(self.scale[:, None])

    def times(self, factor: float) -> "ByteLinear":
        """A layer with every output multiplied."""
        return ByteLinear(self.numbers, self.scale * factor, self.bias * factor)


@dataclass(frozen=True)
class LayerNormWeights:
    """A layer normalisation's two parameters."""

    weight: Float[Tensor, " D"]
    bias: Float[Tensor, " D"]


@dataclass(frozen=True, kw_only=True)
class ByteLayer:
    """The weights of one layer, by their names in models/text/bert_encoder.py."""

    query: ByteLinear
    key: ByteLinear
    value: ByteLinear
    mix: ByteLinear
    attention_norm: LayerNormWeights
    widen: ByteLinear
    narrow: ByteLinear
    output_norm: LayerNormWeights


class KernelLayers(nn.Module):
    """Layers of a frozen encoder on the CPU, equal to PyTorch's up to rounding."""

    def __init__(
        self, layers: Sequence[ByteLayer], num_heads: int, epsilon: float, kernels: TransformerKernels
    ) -> None:
        """Pack the weights. Raises ValueError unless widths of layers and heads are multiples of 16."""
        super().__init__()
        hidden, width = layers[0].widen.numbers.shape
        if width % num_heads or any(size % BLOCK for size in (width, hidden, width // num_heads)):
            raise ValueError(
                f"{num_heads} heads, {width} and {hidden} numbers: heads and layers must be multiples of 16"
            )
        self.kernels = kernels
        self._kept: list[Tensor] = []  # tensors that the structures point to
        self._layers = (CLayer * len(layers))(*(self._structure(layer, num_heads) for layer in layers))
        self.structure = CTransformer(ctypes.addressof(self._layers), len(layers), width, hidden, num_heads, epsilon)

    def forward(self, states: Float[Tensor, "Q P D"], mask: Bool[Tensor, "Q P"]) -> Float[Tensor, "Q P D"]:
        """The last layer's states; zeros where padded."""
        if bool(mask.all()):
            real_states = states.flatten(0, 1).clone(memory_format=torch.contiguous_format)
            self.kernels.transform(
                self.structure, real_states, [states.shape[1]] * len(states), torch.get_num_threads()
            )
            return real_states.view_as(states)
        real_states = states[mask]
        self.kernels.transform(self.structure, real_states, mask.sum(1).tolist(), torch.get_num_threads())
        return torch.zeros_like(states).masked_scatter_(mask[:, :, None], real_states)

    def _structure(self, layer: ByteLayer, num_heads: int) -> CLayer:
        width = layer.mix.numbers.shape[0]
        scaled = layer.query.times((width // num_heads) ** -0.5)
        linears = (ByteLinear.joined([scaled, layer.key, layer.value]), layer.mix, layer.widen, layer.narrow)
        norms = layer.attention_norm, layer.output_norm
        return CLayer(
            *(self._linear(linear) for linear in linears),
            *(CLayerNorm(self._address(norm.weight), self._address(norm.bias)) for norm in norms),
        )

    def _linear(self, linear: ByteLinear) -> CLinear:
        outputs, inputs = linear.numbers.shape
        packed = linear.numbers.view(-1, BLOCK, inputs).mT.contiguous()
        self._kept.append(packed)
        return CLinear(packed.data_ptr(), self._address(linear.scale), self._address(linear.bias), inputs, outputs)

    def _address(self, numbers: Tensor) -> int:
        kept = numbers.contiguous()
        self._kept.append(kept)
        return kept.data_ptr()


def sentences_at_once(lengths: Sequence[int], threads: int) -> list[slice]:
    """Parts of consecutive sentences that are computed together: about one per thread, with few pieces each."""
    most = min(MOST_PIECES, max(1, -(-sum(lengths) // max(1, threads))))
    parts, first, pieces = list[slice](), 0, 0
    for number, length in enumerate(lengths):
        if number > first and pieces + length > most:
            parts.append(slice(first, number))
            first, pieces = number, 0
        pieces += length
    return [*parts, slice(first, len(lengths))] if lengths else parts
