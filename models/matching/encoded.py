"""Encoded pictures and sentences, as a matcher scores them and a view stores them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from models.batches import Regions, Rows, Words

HUBNESS = "hubness"  # the field of a stored record that holds a picture's offset
STAGE_ONE = "stage_one"  # the field of its embedding and -offset, if stage one is part of the score


class HalfPrecisionOverflow(ValueError):
    """A number of a record that is too large for half precision; the message names the field."""


def to_half(tensor: Tensor, field: str) -> Tensor:
    """A record's field in fp16. Raises HalfPrecisionOverflow if a finite number would become infinite."""
    half = tensor.half()
    lost = half.isinf() & tensor.isfinite()
    if lost.any():
        largest = float(tensor[lost].abs().max())
        raise HalfPrecisionOverflow(
            f"{field} of a picture hold {largest:.4g}, and half precision, in which they are stored, ends at"
            f" {torch.finfo(torch.float16).max:.0f}: use a model with vectors of unit length (unit_vectors=true)"
        )
    return half


def stored_arrays(images: Rows, wide: Collection[str]) -> dict[str, np.ndarray]:
    """The fields of encoded pictures as a view stores them: bool, half precision, and single precision for fields of
    one number per picture and those in `wide`. Raises HalfPrecisionOverflow for too large numbers."""
    return {
        name: (tensor if name in wide or not _is_halved(tensor) else to_half(tensor, name)).cpu().numpy()
        for name, tensor in images.tensors().items()
    }


def _is_halved(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and tensor.dim() > 1


def of_width(regions: Regions, feature_dim: int, reader: str) -> Regions:
    """The regions, if their features have `feature_dim` numbers. Raises ValueError, which names the model `reader`, for
    another width, and TypeError for other values than regions."""
    if not isinstance(regions, Regions):
        raise TypeError(f"{reader} reads Regions; Regions.from_arrays makes them of NumPy arrays")
    if regions.vectors.shape[-1] != feature_dim:
        raise ValueError(f"{reader} reads features of {feature_dim} numbers, these have {regions.vectors.shape[-1]}")
    return regions


@dataclass(frozen=True)
class EncodedImages(Rows):
    """Encoded pictures: the reranker's rows; with a hubness correction, each picture's offset; if stage one's cosine
    is part of the scores, each picture's unit embedding, followed by minus its offset in stage one.

    `tensors` are the fields of the pictures' stored records.
    """

    rows: Rows
    offset: Float[Tensor, " K"] | None = None
    embedding: Float[Tensor, "K E"] | None = None

    @property
    def region_mask(self) -> Bool[Tensor, "K R"]:
        """True for regions, False for padding; only for the rows of a single reranker."""
        return self.rows.tensors()["mask"]

    def tensors(self) -> dict[str, Tensor]:
        """Field of a stored record -> tensor [K, ...], in the records' order."""
        further = {HUBNESS: self.offset, STAGE_ONE: self.embedding}
        return self.rows.tensors() | {name: tensor for name, tensor in further.items() if tensor is not None}

    def with_tensors(self, tensors: Mapping[str, Tensor]) -> "EncodedImages":
        """Encoded pictures with the same fields, from other tensors."""
        remaining = dict(tensors)
        further = remaining.pop(HUBNESS, None), remaining.pop(STAGE_ONE, None)
        return EncodedImages(self.rows.with_tensors(remaining), *further)


@dataclass(frozen=True)
class EncodedTexts(Rows):
    """Encoded sentences: the vectors of their words, the offset that is subtracted from each sentence's scores, and
    whether it is a question for pictures (`asked`) or a caption that may answer a picture."""

    vectors: Float[Tensor, "Q W D"]
    mask: Bool[Tensor, "Q W"]
    offset: Float[Tensor, " Q"]
    asked: Bool[Tensor, " Q"]

    @property
    def words(self) -> Words:
        """The words, as a reranker reads them."""
        return Words(self.vectors, self.mask)

    def are_short(self, most_words: int) -> Bool[Tensor, " Q"]:
        """True for questions of at most `most_words` words."""
        return self.asked & (self.words.num_words <= most_words)

    def without_offset(self, scores: Float[Tensor, "Q K"]) -> Float[Tensor, "Q K"]:
        """Scores of the sentences before their offsets are subtracted."""
        return scores + self.offset[:, None]
