"""The kernels under test, and pictures as views store them."""

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from models.batches import Regions, Rows, Words
from models.kernels.interface import field_reader
from models.kernels.library import KernelLibrary, NoKernels, load_library
from models.rerankers.base import Reranker
from models.rerankers.encoders import EncoderConfig
from models.rerankers.registry import build


def load_kernels() -> KernelLibrary:
    """The kernels of this machine; the test is skipped where they are not built."""
    try:
        return load_library()
    except NoKernels as fault:
        pytest.skip(f"no kernels: {fault}")


@dataclass(frozen=True)
class Stored:
    """Pictures as a view stores them: records in half precision, and the same numbers as PyTorch reads them."""

    records: dict[str, npt.NDArray[Any]]
    rows: Rows

    @classmethod
    @torch.no_grad()
    def of(cls, reranker: Reranker[Any], projected: Regions) -> "Stored":
        """What is stored of pictures with these region vectors, which are rounded first as a matcher rounds them."""
        images = reranker.precompute(Regions(projected.vectors.half().float(), projected.mask))
        halves = images.to(dtype=torch.float16)
        records = {name: tensor.numpy() for name, tensor in halves.tensors().items()}
        return cls(records, halves.to(dtype=torch.float32))


def small_reranker(name: str, width: int, **options: Any) -> Reranker[Any]:
    """A model for vectors of `width` numbers."""
    return build(name, EncoderConfig(num_words=2, word_dim=2, feature_dim=width, width=width), options).eval()


def random_regions(num: int, num_regions: int, width: int, padding: float, generator: torch.Generator) -> Regions:
    """Regions with vectors of length 1, of which a share `padding` is padding, at any place."""
    vectors = normalize(torch.randn(num, num_regions, width, generator=generator), dim=2)
    return Regions(vectors, torch.rand(num, num_regions, generator=generator) >= padding)


def random_words(num: int, num_words: int, width: int, padding: float, generator: torch.Generator) -> Words:
    """Sentences with word vectors of different lengths, of which a share `padding` is padding; some word is real."""
    vectors = normalize(torch.randn(num, num_words, width, generator=generator), dim=2)
    vectors = vectors * (0.5 + torch.rand(num, num_words, 1, generator=generator))
    mask = torch.rand(num, num_words, generator=generator) >= padding
    mask[:, 0] = True
    return Words(vectors, mask)


@torch.no_grad()
def scores_in(dtype: torch.dtype, reranker: Reranker[Any], stored: Stored, words: Words) -> Tensor:
    """PyTorch's scores of the stored pictures, computed in `dtype`."""
    own = copy.deepcopy(reranker).to(dtype)
    return own.score(stored.rows.to(dtype=dtype), words.to(dtype=dtype)).double()


@torch.no_grad()
def kernel_scores(kernels: KernelLibrary, reranker: Reranker[Any], stored: Stored, words: Words) -> Tensor:
    """The kernels' scores of the same."""
    assert reranker.kernel_form is not None
    numbers = np.arange(len(stored.rows))
    question = reranker.kernel_question(words, field_reader(stored.records, numbers, torch.device("cpu")))
    return kernels.scores(reranker.kernel_form, stored.records, numbers, question).double()
