"""Tables of precomputed inner products for the kernels' attention."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int32
from torch import Tensor

TABLES_FUNCTION = "regard_table_scores"


class CTables(ctypes.Structure):
    """`tables` of source/tables.h."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("products", "gram", "lengths", "mask")),
        *((name, ctypes.c_void_p) for name in ("word_gram", "word_lengths", "real_words")),
        ("pictures", ctypes.c_int64),
        *((name, ctypes.c_int32) for name in ("regions", "sentences", "words")),
    )


@dataclass(frozen=True)
class ProductTables:
    """Inner products of the regions of K pictures and the words of Q sentences, with further data for attention; all
    float32 on the CPU, except mask and counts."""

    products: Float[Tensor, "K R Q W"]
    gram: Float[Tensor, "K R R"]
    region_lengths: Float[Tensor, "K R"]
    region_mask: Bool[Tensor, "K R"]
    word_gram: Float[Tensor, "Q W W"]
    word_lengths: Float[Tensor, "Q W"]
    word_counts: Int32[Tensor, " Q"]
    """Numbers of real words, which come first."""

    def structure(self) -> tuple[CTables, Sequence[Tensor]]:
        """The C structure, and the tensors whose addresses it holds. Raises ValueError for other types or shapes."""
        num_pictures, num_regions, num_sentences, num_words = self.products.shape
        pictures, sentences = (num_pictures, num_regions), (num_sentences, num_words)
        expected = (
            (self.products, torch.float32, self.products.shape),
            (self.gram, torch.float32, (*pictures, num_regions)),
            (self.region_lengths, torch.float32, pictures),
            (self.region_mask, torch.bool, pictures),
            (self.word_gram, torch.float32, (*sentences, num_words)),
            (self.word_lengths, torch.float32, sentences),
            (self.word_counts, torch.int32, (num_sentences,)),
        )
        for tensor, dtype, shape in expected:
            if tensor.dtype != dtype or tensor.shape != shape or tensor.device.type != "cpu":
                actual = f"{tensor.dtype} {tuple(tensor.shape)} on {tensor.device}"
                raise ValueError(f"a table must be {dtype} {tuple(shape)} on the CPU, not {actual}")
        if num_sentences and not 0 <= int(self.word_counts.min()) <= int(self.word_counts.max()) <= num_words:
            raise ValueError(f"sentences have up to {num_words} words, not {int(self.word_counts.max())}")
        kept = [tensor.contiguous() for tensor, _, _ in expected]
        addresses = (tensor.data_ptr() for tensor in kept)
        return CTables(*addresses, num_pictures, num_regions, num_sentences, num_words), kept
