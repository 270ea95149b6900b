"""One sentence against its candidates, as the service scores them: every registered model."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from models.batches import Regions, Rows, Words
from models.bench.inputs import Sizes, random_regions, random_reranker, random_words
from models.bench.literal import CaptionLoop
from models.bench.timing import MachineRates, time_interleaved
from models.rerankers.base import Images, Reranker, score_in_blocks


def num_bytes(rows: Rows) -> float:
    """Bytes of the tensors of rows."""
    return float(sum(tensor.numel() * tensor.element_size() for tensor in rows.tensors().values()))


@torch.no_grad()
def matrix_flops(reranker: Reranker[Images], images: Images, words: Words) -> float:
    """Operations in the matrix products of our form; elementwise operations are not counted."""
    with FlopCounterMode(display=False) as counter:
        score_in_blocks(reranker, images, words)
    return float(counter.get_total_flops())


@torch.no_grad()
def rerank_row(name: str, projected: Regions, words: Words, rounds: int, rates: MachineRates) -> dict[str, Any]:
    """The figures of one model with one number of candidates."""
    reranker = random_reranker(name, projected.vectors.shape[2])
    images = reranker.precompute(projected)
    loop = CaptionLoop(reranker, projected)
    regions, columns = projected.vectors.flatten(0, 1), words.vectors.flatten(0, 1).T
    turns = time_interleaved(
        {
            "ours": lambda: score_in_blocks(reranker, images, words),
            "literal": lambda: loop.score(words),
            "product": lambda: regions @ columns,
        },
        rounds,
    )
    pairs = len(projected) * len(words)
    flops = matrix_flops(reranker, images, words)
    floor = rates.floor(flops, num_bytes(images))
    return {
        "model": name,
        "candidates": len(projected),
        "us_per_pair": 1e6 * turns.median("ours") / pairs,
        "literal_us_per_pair": 1e6 * turns.median("literal") / pairs,
        "product_us_per_pair": 1e6 * turns.median("product") / pairs,
        "floor_us_per_pair": 1e6 * floor / pairs,
        "ratio_to_literal": turns.ratio("literal", "ours"),
        "ratio_to_product": turns.ratio("ours", "product"),
        "ratio_to_floor": turns.fastest("ours") / floor,
        "mflop_per_pair": 1e-6 * flops / pairs,
    }


def rerank_rows(
    models: Sequence[str], candidates: Sequence[int], sizes: Sizes, rounds: int, rates: MachineRates
) -> Iterator[dict[str, Any]]:
    """A row for every model and number of candidates."""
    words = random_words(torch.tensor([sizes.words]), sizes.width)
    for count in candidates:
        projected = random_regions(count, sizes.regions, sizes.width)
        for name in models:
            yield rerank_row(name, projected, words, rounds, rates)
