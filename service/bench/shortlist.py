"""Stage one: the shortlist against an exact search by one matrix product, and how many of the exact best it finds."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from index.shortlist import Floats, Shortlist
from models.bench.timing import MachineRates, time_interleaved

ASKED = 32
CLUSTERS = 256  # pictures of one subject lie together
SPREAD = 0.7  # of a picture around its subject, as a share of the distance between subjects
FLOAT_BYTES = 4


def spectral_rows(count: int, dim: int, seed: int) -> Floats:
    """[count, dim] unit vectors around common centres, with variances that fall as 1 / n from axis to axis, as those
    of encoded photographs do; on uniform directions no approximate search would find anything."""
    generator = np.random.default_rng(seed)
    scale = (1 / np.sqrt(np.arange(1, dim + 1))).astype(np.float32)
    centres = np.random.default_rng(0).standard_normal((CLUSTERS, dim), np.float32)
    rows = generator.standard_normal((count, dim), np.float32)
    rows *= SPREAD
    rows += centres[generator.integers(CLUSTERS, size=count)]
    rows *= scale
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def recall(found: npt.NDArray[np.int64], exact: npt.NDArray[np.int64]) -> float:
    """The share of the exact rows [Q, k] that are among those found."""
    same = [len(set(one) & set(best)) for one, best in zip(found.tolist(), exact.tolist(), strict=True)]
    return sum(same) / exact.size


def shortlist_row(count: int, dim: int, k: int, rounds: int, rates: MachineRates) -> dict[str, Any]:
    """The figures of one size: building, one search after the other, and recall of the k best."""
    rows, queries = spectral_rows(count, dim, 1), spectral_rows(ASKED, dim, 2)
    k = min(k, count)
    began = time.perf_counter()
    shortlist = Shortlist(dim).extended(rows)
    building = time.perf_counter() - began
    table = torch.from_numpy(rows)

    def exact(query: Floats) -> torch.Tensor:
        return (table @ torch.from_numpy(query)).topk(k).indices

    turns = time_interleaved(
        {
            "ours": lambda: [shortlist.search(query[None], k) for query in queries],
            "exact": lambda: [exact(query) for query in queries],
            "together": lambda: shortlist.search(queries, k),
        },
        rounds,
    )
    _, found = shortlist.search(queries, k)
    floor = rates.floor(2.0 * rows.size, float(FLOAT_BYTES * rows.size))
    return {
        "rows": count,
        "k": k,
        "build_s": building,
        "ms_per_query": 1e3 * turns.median("ours") / ASKED,
        "ms_per_query_of_32": 1e3 * turns.median("together") / ASKED,
        "exact_ms_per_query": 1e3 * turns.median("exact") / ASKED,
        "floor_of_exact_ms": 1e3 * floor,
        "ratio_to_exact": turns.ratio("exact", "ours"),
        "recall": recall(found, np.stack([exact(query).numpy() for query in queries])),
    }


def shortlist_rows(
    counts: Sequence[int], dim: int, k: int, rounds: int, rates: MachineRates
) -> Iterator[dict[str, Any]]:
    """A row for every number of pictures."""
    for count in counts:
        yield shortlist_row(count, dim, k, rounds, rates)
