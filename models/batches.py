"""Batches as values: dataclasses of tensors that share their first axis.

Letters used in shapes throughout `models`:
    K pictures   Q sentences   R regions of a picture   W words of a sentence
    D width of a vector (F of a raw region feature, E of a stage-one embedding)
Masks are True where a row is real and False where it is padding.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeAlias, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

AnyRows = TypeVar("AnyRows", bound="Rows")

MARKS = 2  # <start> and <end>, which every sentence has in addition to its words


def tiles(length: int, size: int) -> Sequence[slice]:
    """Consecutive slices of at most `size` that cover `length` rows."""
    return [slice(start, min(start + size, length)) for start in range(0, length, size)]


def take_rows(tensor: Tensor, rows: "slice | Tensor | list[int]") -> Tensor:
    """`tensor[rows]` with a gradient that is reproducible bit for bit.

    If a row is taken several times, threads on a CPU add the gradients of plain indexing in any order; those of
    `index_select` are added in sequence.
    """
    if isinstance(rows, Tensor) and rows.dtype == torch.long and tensor.device.type == "cpu":
        return tensor.index_select(0, rows)
    return tensor[rows]


@dataclass(frozen=True)
class Rows:
    """Tensors with one common first axis, sliced, moved and joined as one value.

    A subclass whose fields are not all tensors overrides `tensors` and `with_tensors`.
    """

    def __post_init__(self) -> None:
        lengths = {name: len(tensor) for name, tensor in self.tensors().items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"the tensors of {type(self).__name__} differ in their first axis: {lengths}")

    def tensors(self) -> dict[str, Tensor]:
        """Field name -> tensor, in the order of declaration."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def with_tensors(self: AnyRows, tensors: Mapping[str, Tensor]) -> AnyRows:
        """A value of the same structure with other tensors, keyed as in `tensors`."""
        return type(self)(**tensors)

    def __len__(self) -> int:
        return len(next(iter(self.tensors().values())))

    def __getitem__(self: AnyRows, rows: "slice | Tensor | list[int]") -> AnyRows:
        return self.with_tensors({name: take_rows(tensor, rows) for name, tensor in self.tensors().items()})

    def to(self: AnyRows, device: "torch.device | str | None" = None, dtype: torch.dtype | None = None) -> AnyRows:
        """A copy on `device`; `dtype` applies to floating-point tensors only."""
        return self.with_tensors(
            {
                name: tensor.to(device=device, dtype=dtype if tensor.is_floating_point() else None)
                for name, tensor in self.tensors().items()
            }
        )

    @classmethod
    def cat(cls: type[AnyRows], parts: Sequence[AnyRows]) -> AnyRows:
        """Parts joined along the first axis."""
        tensors = [part.tensors() for part in parts]
        return parts[0].with_tensors({name: torch.cat([part[name] for part in tensors]) for name in tensors[0]})


@dataclass(frozen=True)
class Regions(Rows):
    """Vectors of the regions of pictures: raw features, or projected ones."""

    vectors: Float[Tensor, "K R D"]
    mask: Bool[Tensor, "K R"]

    @classmethod
    def from_arrays(cls, vectors: np.ndarray, mask: np.ndarray | None = None) -> "Regions":
        """Regions from NumPy arrays [K R D] and [K R], in float32; without a mask every region is real.

        Raises ValueError for arrays of other shapes and for numbers that are not finite.
        """
        real = np.ones(vectors.shape[:2], bool) if mask is None else np.asarray(mask, bool)
        if vectors.ndim != 3 or real.shape != vectors.shape[:2]:
            shapes = f"{vectors.shape} and {real.shape}"
            raise ValueError(f"features are [pictures, regions, numbers], their mask [pictures, regions], not {shapes}")
        if bad := [int(row) for row in np.flatnonzero(~np.isfinite(vectors).all(axis=(1, 2)))]:
            raise ValueError(f"picture {bad[0]} holds numbers that are not finite (of {len(bad)} that do)")
        return cls(torch.from_numpy(vectors.astype(np.float32)), torch.from_numpy(real))


@dataclass(frozen=True)
class Tokens(Rows):
    """Word ids of sentences, <start> and <end> included."""

    ids: Int64[Tensor, "Q W"]
    mask: Bool[Tensor, "Q W"]


@dataclass(frozen=True)
class Words(Rows):
    """Vectors of the words of sentences, <start> and <end> among them."""

    vectors: Float[Tensor, "Q W D"]
    mask: Bool[Tensor, "Q W"]

    @property
    def num_words(self) -> Int64[Tensor, " Q"]:
        """The number of words of each sentence, including punctuation but not <start> and <end>."""
        return self.mask.sum(1) - MARKS


@dataclass(frozen=True)
class SeveralReadings(Rows):
    """One batch of sentences as several readers give it, with equal words."""

    readings: tuple[Tokens | Words, ...]

    @property
    def mask(self) -> Bool[Tensor, "Q W"]:
        """False where a sentence is padded."""
        return self.readings[0].mask

    def tensors(self) -> dict[str, Tensor]:
        """Field name with the number of its reading at the end -> tensor [Q, ...]."""
        return numbered_tensors(self.readings)

    def with_tensors(self, tensors: Mapping[str, Tensor]) -> "SeveralReadings":
        """Readings of the same kinds with other tensors."""
        readings = (reading.with_tensors(numbered_fields(tensors, n)) for n, reading in enumerate(self.readings))
        return SeveralReadings(tuple(readings))


ReadSentences: TypeAlias = Tokens | Words | SeveralReadings
"""Sentences as matchers take them: a reader's word ids or states of a pretrained encoder (models/text/reader.py), or
several of these for an ensemble."""


def numbered_tensors(parts: Sequence[Rows]) -> dict[str, Tensor]:
    """The tensors of several parts in their order; names end in `_` and the part's number."""
    return {f"{name}_{number}": tensor for number, part in enumerate(parts) for name, tensor in part.tensors().items()}


def numbered_fields(fields: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The fields whose names end in `_` and the number, keyed without that ending."""
    ending = f"_{number}"
    return {name.removesuffix(ending): value for name, value in fields.items() if name.endswith(ending)}
