"""States of words from their word pieces, computed by a kernel in one call."""

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
    """The layers' input: for each piece the vector of its id plus that of its position, normalised."""

    planes: UInt8[Tensor, "bits N bytes"]
    scale: Float[Tensor, " N"]
    positions: Float[Tensor, "P D"]
    norm: LayerNormWeights


@dataclass(frozen=True)
class WordPieces:
    """Concatenated runs, as flat lists."""

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
        """Parts of consecutive runs, each with the slice of its words among all."""
        pieces, words = ([0, *accumulate(each)] for each in (self.lengths, self.words))
        split = []
        for part in runs:
            rows = slice(words[part.start], words[part.stop])
            ids = self.ids[pieces[part.start] : pieces[part.stop]]
            split.append((rows, WordPieces(ids, self.lengths[part], self.sizes[rows], self.words[part])))
        return split


@runtime_checkable
class WordKernels(TransformerKernels, Protocol):
    """Kernels that compute embedding and layers from the ids of pieces."""

    def word_states(
        self, embedding: CEmbedding, layers: CTransformer, sentences: WordPieces, threads: int
    ) -> Float[Tensor, "N D"]:
        """The states of all words in their order."""


class KernelWordStates:
    """An encoder's embedding and layers on the CPU, equal to PyTorch's up to rounding."""

    def __init__(self, embedding: PieceEmbedding, layers: KernelLayers, kernels: WordKernels) -> None:
        """Keep the weights. Raises ValueError for an embedding of another width or on another device than the CPU."""
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
        """The mean states of the pieces of each word, in order. Raises IndexError for an unknown piece, and for a run
        of more pieces than there are positions."""
        return self._kernels.word_states(self._embedding, self.layers.structure, WordPieces.of(runs), threads)
