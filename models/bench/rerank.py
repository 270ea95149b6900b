"""The time of one sentence against its candidates, as the service scores them, for every registered model."""

import importlib
import importlib.util
import math
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from models.batches import Regions, Rows, Words, tiles
from models.bench.inputs import Sizes, random_regions, random_reranker, random_words
from models.bench.literal import CaptionLoop
from models.bench.timing import MachineRates, time_runs_interleaved
from models.kernels.interface import field_reader
from models.kernels.library import KernelLibrary, NoKernels, load_library
from models.rerankers.base import Images, Reranker
from models.rerankers.blocks import score_in_blocks
from models.rerankers.products import ONEDNN_PRODUCT
from models.rerankers.summax import SumMax

MAXSIM = "maxsim_cpu"  # a package with a fast Sum-Max for CPUs, compared with if it is installed
MAXSIM_WORDS = 7


def linear_flops(rows: Sequence[int], matrix: Sequence[int], *further: Any, **named: Any) -> int:
    """Operations of a product of rows with a matrix, from their shapes."""
    return 2 * math.prod(rows) * matrix[0]


FURTHER_PRODUCTS = {} if ONEDNN_PRODUCT is None else {ONEDNN_PRODUCT: linear_flops}
"""Products that PyTorch's counter does not know."""


def num_bytes(rows: Rows) -> float:
    """Bytes of the tensors of rows."""
    return float(sum(tensor.numel() * tensor.element_size() for tensor in rows.tensors().values()))


@torch.no_grad()
def matrix_flops(reranker: Reranker[Images], images: Images, words: Words) -> float:
    """Operations in the matrix products of our form; elementwise operations are not counted."""
    with FlopCounterMode(display=False, custom_mapping=FURTHER_PRODUCTS) as counter:
        score_in_blocks(reranker, images, words)
    return float(counter.get_total_flops())


def records_of(rows: Rows) -> dict[str, npt.NDArray[Any]]:
    """The pictures' fields as a view stores them: numbers in half precision."""
    halves = {name: tensor.half() if tensor.is_floating_point() else tensor for name, tensor in rows.tensors().items()}
    return {name: tensor.numpy() for name, tensor in halves.items()}


def kernel_call(
    reranker: Reranker[Any], images: Rows, words: Words, kernels: KernelLibrary | None
) -> Callable[[], Tensor] | None:
    """A call of the kernels on stored records; None if the kernels do not support the model."""
    form = reranker.kernel_form
    if kernels is None or form is None:
        return None
    records, numbers = records_of(images), np.arange(len(images))
    stored, threads = field_reader(records, numbers, torch.device("cpu")), torch.get_num_threads()
    return lambda: kernels.scores(form, records, numbers, reranker.kernel_question(words, stored), threads)


def maxsim_call(reranker: Reranker[Any], images: Rows, words: Words) -> Callable[[], Any] | None:
    """A call of the package maxsim-cpu for Sum-Max of one sentence, from float32 vectors in memory; None for another
    model, or if the package is not installed.

    It crashes on queries of eight or more words at this width, so it gets up to seven words at a time: a sum over words
    can be split anywhere.
    """
    if not isinstance(reranker, SumMax) or importlib.util.find_spec(MAXSIM) is None:
        return None
    os.environ.setdefault("RAYON_NUM_THREADS", str(torch.get_num_threads()))  # read once, at its first call
    scores = importlib.import_module(MAXSIM).maxsim_scores
    vectors, queries = images.tensors()["vectors"].numpy(), words.vectors[0][words.mask[0]].numpy()
    if reranker.config.direction == "i2t":
        return None  # every region would be a query of its own picture alone
    pieces = [queries[part] for part in tiles(len(queries), MAXSIM_WORDS)]
    return lambda: sum(scores(piece, vectors) for piece in pieces)


@torch.no_grad()
def rerank_row(
    name: str,
    projected: Regions,
    words: Words,
    rounds: int,
    rates: MachineRates,
    kernels: KernelLibrary | None = None,
    device: str = "cpu",
) -> dict[str, Any]:
    """The figures of one model with one number of candidates; `form` says what computed ours."""
    projected, words = projected.to(device), words.to(device)
    kernels = kernels if device == "cpu" else None
    reranker = random_reranker(name, projected.vectors.shape[2]).to(device)
    images = reranker.precompute(projected)
    loop = CaptionLoop(reranker, projected)
    regions, columns = projected.vectors.flatten(0, 1), words.vectors.flatten(0, 1).T
    in_torch = partial(score_in_blocks, reranker, images, words)
    by_kernels = kernel_call(reranker, images, words, kernels)
    forms: dict[str, Callable[[], Any]] = {
        "torch": in_torch,
        "literal": lambda: loop.score(words),
        "product": lambda: regions @ columns,
    }
    ours = "torch" if by_kernels is None else "kernel"
    further = {"kernel": by_kernels, "maxsim": maxsim_call(reranker, images, words) if device == "cpu" else None}
    called = forms | {name: call for name, call in further.items() if call is not None}
    first, turns = time_runs_interleaved(called, rounds)
    pairs = len(projected) * len(words)
    flops = matrix_flops(reranker, images, words)
    floor = rates.floor(flops, num_bytes(images) / (2 if by_kernels else 1))
    return {
        "model": name,
        "form": f"kernel {kernels.target}" if kernels and by_kernels else "torch",
        "candidates": len(projected),
        "us_per_pair": 1e6 * turns.median(ours) / pairs,
        "first_us_per_pair": 1e6 * first.median(ours) / pairs,
        "torch_us_per_pair": 1e6 * turns.median("torch") / pairs,
        "literal_us_per_pair": 1e6 * turns.median("literal") / pairs,
        "product_us_per_pair": 1e6 * turns.median("product") / pairs,
        "floor_us_per_pair": 1e6 * floor / pairs,
        "ratio_to_literal": turns.ratio("literal", ours),
        "ratio_to_torch": turns.ratio("torch", ours),
        "ratio_to_product": turns.ratio(ours, "product"),
        "ratio_to_floor": turns.fastest(ours) / floor,
        "first_ratio_to_floor": first.fastest(ours) / floor,
        "ratio_to_maxsim": None if further["maxsim"] is None else turns.ratio("maxsim", ours),
        "mflop_per_pair": 1e-6 * flops / pairs,
    }


def built_kernels() -> KernelLibrary | None:
    """The kernels, if they are built."""
    try:
        return load_library()
    except NoKernels:
        return None


def rerank_rows(
    models: Sequence[str],
    candidates: Sequence[int],
    sizes: Sizes,
    rounds: int,
    rates: MachineRates,
    kernels: KernelLibrary | None = None,
    device: str = "cpu",
) -> Iterator[dict[str, Any]]:
    """A row for every model and number of candidates."""
    words = random_words(torch.tensor([sizes.words]), sizes.width)
    for count in candidates:
        projected = random_regions(count, sizes.regions, sizes.width)
        for name in models:
            yield rerank_row(name, projected, words, rounds, rates, kernels, device)
