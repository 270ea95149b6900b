"""Compares the Triton kernel with PyTorch in float64, in a process of its own: `python -m tests.support.triton_check`.

Triton reads the sources of its functions, so they must not be wrapped as pytest wraps everything here, and whether it
interprets them is settled when it is imported. Prints one JSON object, name of a case -> largest difference.
"""

import itertools
import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from models.batches import Words
from models.kernels.device_library import DeviceKernels
from tests.support.kernels import Stored, random_regions, random_words, scores_in, small_reranker

BUDGETS = (1 << 30, 3000, 0)  # all records resident, some, none


def options() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every value of every option at least once in both directions."""
    for direction, normalisation in itertools.product(
        ("t2i", "i2t"), ("softmax", "l2norm", "clipped_l2norm", "clipped", "no_norm")
    ):
        yield "scan-t2i-avg", {"direction": direction, "normalisation": normalisation}
    for pooling in ("LogSumExp", "Max", "Sum"):
        yield "scan-t2i-avg", {"pooling": pooling, "lambda_lse": 6.0}
    yield "scan-i2t-avg", {"lambda_softmax": 35.0}  # the whole softmax
    for focal, similarity in itertools.product(("prob", "equal"), ("clipped_l2norm", "cosine")):
        yield f"bfan-{focal}", {"similarity": similarity}
    yield "summax-t2i", {}
    yield "summax-i2t", {}


def difference(name: str, given: dict[str, Any], regions: int, words: int, budget: int, device: str) -> float:
    """The largest difference of any score, in units of the larger of 1 and the score."""
    generator = torch.Generator().manual_seed(regions)
    width = 70  # no multiple of what is multiplied at a time
    reranker = small_reranker(name, width, **given)
    assert reranker.kernel_form is not None
    stored = Stored.of(reranker, random_regions(5, regions, width, 0.2, generator))
    sentences = random_words(2, words, width, 0.2, generator)
    rows = np.array([[4, 0, 2], [1, 1, 3]])
    expected = scores_in(torch.float64, reranker, stored, sentences).gather(1, torch.from_numpy(rows))
    kernels = DeviceKernels(torch.device(device), budget)
    on_it = Words(sentences.vectors.to(device), sentences.mask.to(device))
    found = kernels.scores(reranker.kernel_form, stored.records, rows, on_it).double().cpu()
    again = kernels.scores(reranker.kernel_form, stored.records, rows[0], on_it[:1]).double().cpu()
    assert torch.equal(again[0], found[0]), "a score depends on what else is asked"
    return float(((found - expected).abs() / expected.abs().clamp_min(1)).max())


def main() -> None:
    """Print the differences."""
    device = sys.argv[1]
    sizes = itertools.cycle([(5, 3), (17, 16), (36, 18)])
    budgets = itertools.cycle(BUDGETS)
    found = {
        f"{name} {given} {size}": difference(name, given, *size, budget, device)
        for (name, given), size, budget in zip(options(), sizes, budgets, strict=False)
    }
    for focal in ("prob", "equal"):
        found[f"bfan-{focal} of one region"] = difference(f"bfan-{focal}", {}, 1, 40, BUDGETS[0], device)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
