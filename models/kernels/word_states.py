"""States of words from the pieces that they are split into, computed by a kernel in one call."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Protocol, runtime_checkable

from jaxtyping import Float, UInt8
from torch import Tensor

from models.kernels.transformer import (
    CLayerNorm,
    CTransformer,
    KernelLayers,
    LayerNormWeights,
    TransformerKernels,
)

Run = Sequence[Sequence[int]]
"""The words of a sentence, or of a part of one, each as the ids of its pieces."""


class CEmbedding(ctypes.Structure):
    """`embedding` of source/word_states.h."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("planes", "scale", "positions")),
        ("norm", CLayerNorm),
        *((name, ctypes.c_int32) for name in ("bits", "pieces", "places")),
    )


class CWordPieces(ctypes.Structure):
    """`word_pieces` of source/word_states.h."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("ids", "lengths", "sizes")),
        *((name, ctypes.c_int32) for name in ("sentences", "words")),
    )


@dataclass(frozen=True)
class PieceEmbedding:
    """The states that layers begin with: of each piece the vector of its id plus that of its place, normalised."""

    planes: UInt8[Tensor, "bits N bytes"]
    scale: Float[Tensor, " N"]
    positions: Float[Tensor, "P D"]
    norm: LayerNormWeights


@dataclass(frozen=True)
class WordPieces:
    """Runs one after the other, as flat lists."""

    ids: Sequence[int]
    lengths: Sequence[int]
    """Pieces of each run."""
    sizes: Sequence[int]
    """Pieces of each word."""
    words: Sequence[int]
    """Words of each run."""

    @classmethod
    def of(cls, runs: Sequence[Run]) -> "WordPieces":
        """The lists of these runs."""
        words = list(chain.from_iterable(runs))
        return cls(
            ids=list(chain.from_iterable(words)),
            lengths=[sum(map(len, run)) for run in runs],
            sizes=list(map(len, words)),
            words=list(map(len, runs)),
        )

    def parts(self, runs: Sequence[slice]) -> "list[tuple[slice, WordPieces]]":
        """Consecutive runs by themselves, each with the place of their words among all."""
        pieces, words = ([0, *accumulate(each)] for each in (self.lengths, self.words))
        made = []
        for part in runs:
            own = slice(words[part.start], words[part.stop])
            ids = self.ids[pieces[part.start] : pieces[part.stop]]
            made.append((own, WordPieces(ids, self.lengths[part], self.sizes[own], self.words[part])))
        return made


@runtime_checkable
class WordKernels(TransformerKernels, Protocol):
    """Kernels that compute such layers from the ids of pieces on."""

    def word_states(
        self, embedding: CEmbedding, layers: CTransformer, said: WordPieces, threads: int
    ) -> Float[Tensor, "N D"]:
        """The states of all words, one after the other."""


class KernelWordStates:
    """An encoder's embedding and layers on the CPU; up to rounding it computes what PyTorch does."""

    def __init__(self, embedding: PieceEmbedding, layers: KernelLayers, kernels: WordKernels) -> None:
        """ValueError for an embedding of another width than the layers', or that lies on another device."""
        self.layers, self._kernels = layers, kernels
        bits, pieces, eighths = embedding.planes.shape
        width = layers.structure.width
        if {8 * eighths, embedding.positions.shape[1], len(embedding.norm.weight)} != {width}:
            raise ValueError(f"the layers are {width} wide, the embedding is not")
        if {part.device.type for part in (embedding.planes, embedding.positions)} != {"cpu"}:
            raise ValueError("the kernels read an embedding on the CPU")
        numbers = embedding.scale, embedding.positions, embedding.norm.weight, embedding.norm.bias
        self._kept = [embedding.planes.contiguous(), *(part.float().contiguous() for part in numbers)]
        planes, scale, positions, *norm = (part.data_ptr() for part in self._kept)
        self._embedding = CEmbedding(
            planes, scale, positions, CLayerNorm(*norm), bits, pieces, len(embedding.positions)
        )

    def __call__(self, runs: Sequence[Run], threads: int) -> Float[Tensor, "N D"]:
        """The mean states of the pieces of each word, one after the other. IndexError for a piece that there is not,
        and for a run of more pieces than have a place."""
        return self._kernels.word_states(self._embedding, self.layers.structure, WordPieces.of(runs), threads)
