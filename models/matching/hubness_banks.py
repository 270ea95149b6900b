"""The banks that reveal hubs: vectors of typical sentences and of typical pictures.

Each entry represents a group of training sentences or pictures with similar mean vectors, by one or a few vectors that
are means of similar words (regions) of the whole group. No sentence or picture can be reconstructed from it, so a bank
can be shipped even if its training set must not.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int8, Int64
from torch import Tensor

from models.rerankers.attention import l2_normalise

K_MEANS_ITERATIONS = 15  # after these hardly any vector changes its centroid

PICTURES_PREFIX = "picture_"  # of the names of the pictures' bank in the file of both banks


def spherical_k_means(vectors: Float[Tensor, "N D"], count: int, seed: int = 0) -> Float[Tensor, "count D"]:
    """Centroids of groups of vectors of similar direction (Dhillon and Modha 2001); a centroid is its group's mean.

    Raises ValueError for fewer vectors than groups.
    """
    if len(vectors) < count:
        raise ValueError(f"the bank is to have {count} typical vectors, and there are {len(vectors)} to make them of")
    directions = l2_normalise(vectors)
    start = np.random.default_rng(seed).choice(len(vectors), count, replace=False)
    centroids = vectors[torch.from_numpy(start).to(vectors.device)]
    for _ in range(K_MEANS_ITERATIONS):
        nearest = (directions @ l2_normalise(centroids).T).argmax(1)
        sums = torch.zeros_like(centroids).index_add_(0, nearest, vectors)
        sizes = nearest.bincount(minlength=count)[:, None]
        centroids = torch.where(sizes > 0, sums / sizes.clamp_min(1), centroids)  # an empty group keeps its centroid
    return centroids


def typical_parts(
    vectors: Float[Tensor, "N D"], group_of: Int64[Tensor, " N"], count: int, parts: int, seed: int = 0
) -> Float[Tensor, "count parts D"]:
    """Centroids of each group's vectors, in float32; a group with fewer vectors than `parts` repeats them.

    Raises ValueError for a group without vectors.
    """
    centroids = []
    for group in range(count):
        group_vectors = vectors[group_of == group].float()
        if not len(group_vectors):
            raise ValueError(f"group {group} of a bank is empty")
        if len(group_vectors) < parts:
            group_vectors = group_vectors.repeat(-(-parts // len(group_vectors)), 1)[:parts]
        centroids.append(spherical_k_means(group_vectors, parts, seed))
    return torch.stack(centroids)


@dataclass(frozen=True)
class VectorBank:
    """C typical entries of P vectors with 8 bits a number, as in a checkpoint: a vector is scale x integers."""

    integers: Int8[Tensor, "C P D"]
    scales: Float[Tensor, "C P"]

    def __len__(self) -> int:
        return len(self.integers)

    @property
    def width(self) -> int:
        """Width D of the vectors."""
        return self.integers.shape[2]

    @classmethod
    def quantise(cls, vectors: Float[Tensor, "C P D"]) -> "VectorBank":
        """The bank nearest to the vectors, on the CPU."""
        scales = vectors.abs().amax(2).clamp_min(torch.finfo(torch.float32).tiny) / 127
        return cls((vectors / scales[..., None]).round().to(torch.int8).cpu(), scales.cpu())

    def dequantise(self) -> Float[Tensor, "C P D"]:
        """The vectors as floats."""
        return self.integers.float() * self.scales[..., None]

    @classmethod
    def from_tensors(cls, stored: Mapping[str, Tensor]) -> "VectorBank":
        """A bank from the tensors of its file. Raises ValueError if one is missing."""
        if missing := {"bank", "units"} - stored.keys():
            raise ValueError(f"no bank of typical vectors: {', '.join(sorted(missing))} missing")
        integers, scales = stored["bank"], stored["units"]
        return cls(integers, scales) if integers.ndim == 3 else cls(integers[:, None], scales[:, None])

    def tensors(self) -> dict[str, Tensor]:
        """Name -> tensor in its file; entries of one vector have no dimension for vectors."""
        single = self.integers.shape[1] == 1
        return {
            "bank": self.integers[:, 0].contiguous() if single else self.integers,
            "units": self.scales[:, 0].contiguous() if single else self.scales,
        }


@dataclass(frozen=True)
class HubnessBanks:
    """Typical sentences with the width of word vectors, and perhaps typical pictures with that of region vectors.

    Sentences reveal which pictures are hubs; pictures, or else sentences, reveal which sentences are.
    """

    sentences: VectorBank
    pictures: VectorBank | None = None

    @classmethod
    def from_tensors(cls, stored: Mapping[str, Tensor]) -> "HubnessBanks":
        """Banks from the tensors of their file. Raises ValueError if one is missing."""
        of_pictures = {
            name.removeprefix(PICTURES_PREFIX): tensor
            for name, tensor in stored.items()
            if name.startswith(PICTURES_PREFIX)
        }
        return cls(VectorBank.from_tensors(stored), VectorBank.from_tensors(of_pictures) if of_pictures else None)

    def tensors(self) -> dict[str, Tensor]:
        """Name -> tensor in their file."""
        of_pictures = self.pictures.tensors() if self.pictures else {}
        return self.sentences.tensors() | {PICTURES_PREFIX + name: tensor for name, tensor in of_pictures.items()}
