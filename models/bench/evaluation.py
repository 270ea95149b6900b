"""The time to score all captions with all pictures as in an evaluation, compared with the caption loop.

Our form is timed in full, batch by batch. The loop would take a quarter of an hour, so it scores a few random captions
between two batches, and its total is extrapolated. Three loops are measured: in float32 with all pictures at once, in
float32 with 128 at a time, and in float64 with 128 at a time, as in the published code of SCAN and BFAN.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from functools import partial
from typing import Any

import torch

from models.batches import Regions, Words, tiles
from models.bench.inputs import Sizes, caption_lengths, random_regions, random_reranker, random_words
from models.bench.literal import CaptionLoop
from models.bench.rerank import matrix_flops
from models.bench.timing import InterleavedTimes, MachineRates, seconds_of_call
from models.kernels.library import KernelLibrary
from models.rerankers.base import Reranker
from models.rerankers.blocks import score_in_blocks, suits_tables

CAPTION_BATCH = 256  # captions between two samples of the loops
SAMPLE = 2  # captions of each batch that go through the loops
AUTHORS_BLOCK = 128
EVALUATED_MODELS = ("scan-t2i-lse", "scan-t2i-avg", "scan-i2t-lse", "scan-i2t-avg", "bfan-prob", "bfan-equal")


@torch.no_grad()
def evaluation_row(
    name: str,
    projected: Regions,
    words: Words,
    rates: MachineRates,
    kernels: KernelLibrary | None = None,
    device: str = "cpu",
) -> dict[str, Any]:
    """The figures of one model; `form` says what computed attention. The loops score a few captions of every batch."""
    projected, words = projected.to(device), words.to(device)
    reranker = random_reranker(name, projected.vectors.shape[2]).to(device)
    images = reranker.precompute(projected)
    by_kernels = kernels is not None and suits_tables(reranker.kernel_form, images, words)
    precomputing = seconds_of_call(partial(reranker.precompute, projected))
    loops = caption_loops(reranker, projected)
    generator = torch.Generator().manual_seed(4)
    turns: dict[str, list[float]] = {name: [] for name in ("ours", *loops)}
    order = words.mask.sum(1).argsort(stable=True)  # short ones first, as in an evaluation
    for part in tiles(len(words), CAPTION_BATCH):
        batch = words[order[part]]
        chosen = batch[torch.randperm(len(batch), generator=generator)[:SAMPLE].to(device)]
        turns["ours"].append(seconds_of_call(partial(score_in_blocks, reranker, images, batch, kernels=kernels)))
        for form, loop in loops.items():
            turns[form].append(seconds_of_call(partial(loop, chosen)) * len(batch) / len(chosen))
    pairs = len(projected) * len(words)
    seconds = sum(turns["ours"]) + precomputing
    block = images[: reranker.block[0]]  # operations are counted on one block of pictures
    floor = rates.floor(pairs * matrix_flops(reranker, block, words) / (len(block) * len(words)))
    return {
        "model": name,
        "form": f"kernel {kernels.target}" if kernels and by_kernels else "torch",
        "candidates": len(projected),
        "captions": len(words),
        "seconds": seconds,
        "us_per_pair": 1e6 * seconds / pairs,
        "floor_us_per_pair": 1e6 * floor / pairs,
        "ratio_to_floor": seconds / floor,
        **{f"{form}_us_per_pair": 1e6 * sum(turns[form]) / pairs for form in loops},
        **{f"ratio_to_{form}": InterleavedTimes(turns).ratio(form, "ours") for form in loops},
    }


def caption_loops(reranker: Reranker[Any], projected: Regions) -> dict[str, Callable[[Words], Any]]:
    """The three caption loops by name."""
    plain, blocks = CaptionLoop(reranker, projected), CaptionLoop(reranker, projected, AUTHORS_BLOCK)
    double = CaptionLoop(deepcopy(reranker).double(), projected.to(dtype=torch.float64), AUTHORS_BLOCK)
    return {
        "literal": plain.score,
        "blocks": blocks.score,
        "blocks_float64": lambda words: double.score(words.to(dtype=torch.float64)),
    }


def evaluation_rows(
    models: Sequence[str],
    candidates: Sequence[int],
    captions: int,
    sizes: Sizes,
    rates: MachineRates,
    kernels: KernelLibrary | None = None,
    device: str = "cpu",
) -> Iterator[dict[str, Any]]:
    """A row for every model and number of pictures; captions have realistic lengths, not that of `sizes`."""
    words = random_words(caption_lengths(captions), sizes.width)
    for count in candidates:
        projected = random_regions(count, sizes.regions, sizes.width)
        for name in models:
            yield evaluation_row(name, projected, words, rates, kernels, device)
