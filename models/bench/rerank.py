"""One sentence against its candidates, as the service scores them: every registered model."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from models.batches import Regions, Rows, Words
from models.bench import data
from models.bench.encoding import Sizes
from models.bench.literal import CaptionLoop
from models.bench.timing import Best, in_turns
from models.rerankers.base import Images, Reranker, score_in_blocks


def bytes_of(rows: Rows) -> float:
    """What the tensors of rows take."""
    return float(sum(tensor.numel() * tensor.element_size() for tensor in rows.tensors().values()))


@torch.no_grad()
def matrix_flops(reranker: Reranker[Images], images: Images, words: Words) -> float:
    """Operations in the matrix products of our form; what is done number by number is not counted."""
    with FlopCounterMode(display=False) as counter:
        score_in_blocks(reranker, images, words)
    return float(counter.get_total_flops())


@torch.no_grad()
def rerank_row(name: str, projected: Regions, words: Words, rounds: int, best: Best) -> dict[str, Any]:
    """One model and one number of candidates."""
    reranker = data.model(name, projected.vectors.shape[2])
    images = reranker.precompute(projected)
    loop = CaptionLoop(reranker, projected)
    regions, columns = projected.vectors.flatten(0, 1), words.vectors.flatten(0, 1).T
    turns = in_turns(
        {
            "ours": lambda: score_in_blocks(reranker, images, words),
            "literal": lambda: loop.score(words),
            "product": lambda: regions @ columns,
        },
        rounds,
    )
    pairs = len(projected) * len(words)
    flops = matrix_flops(reranker, images, words)
    floor = best.floor(flops, bytes_of(images))
    return {
        "model": name,
        "candidates": len(projected),
        "us_per_pair": 1e6 * turns.usual("ours") / pairs,
        "literal_us_per_pair": 1e6 * turns.usual("literal") / pairs,
        "product_us_per_pair": 1e6 * turns.usual("product") / pairs,
        "floor_us_per_pair": 1e6 * floor / pairs,
        "ratio_to_literal": turns.ratio("literal", "ours"),
        "ratio_to_product": turns.ratio("ours", "product"),
        "ratio_to_floor": turns.best("ours") / floor,
        "mflop_per_pair": 1e-6 * flops / pairs,
    }


def rerank(
    models: Sequence[str], candidates: Sequence[int], sizes: Sizes, rounds: int, best: Best
) -> Iterator[dict[str, Any]]:
    """A row for every model and number of candidates."""
    words = data.words(torch.tensor([sizes.words]), sizes.width)
    for count in candidates:
        projected = data.regions(count, sizes.regions, sizes.width)
        for name in models:
            yield rerank_row(name, projected, words, rounds, best)
