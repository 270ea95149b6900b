"""Stage one: kinds of indexes compared with an exact search by one matrix product: recall, speed, size, and time to
build."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from index.records import Mask
from index.views.shortlist import IVF_FROM, Floats, Ints, Part, Shortlist, flat_part, inverted_part
from models.bench.timing import MachineRates, time_interleaved
from service.bench.drawn_embeddings import drawn_pictures, drawn_sentences

ASKED = 32
FLOAT_BYTES = 4
PASSING = 1 / 100  # share of the rows that a filter allows
NEIGHBOURS, BUILD_BREADTH, SEARCH_BREADTH = 32, 100, 200  # of a graph (HNSW)
LARGEST_GRAPH = 100_000  # rows; more take too long to build


def _faiss() -> Any:
    import faiss  # noqa: PLC0415 - only for kinds of indexes that no service uses

    return faiss


class Searched(Protocol):
    """An index that can be searched."""

    def search(self, query: Floats, k: int, allowed: Mask | None = None) -> tuple[Floats, Ints]:
        """Scores and rows [Q, k] of the best k of the allowed rows for [Q, dim] queries; -1 for none."""


@dataclass(frozen=True)
class Graph:
    """A graph of nearest neighbours (Malkov and Yashunin 2016, HNSW) over float32 vectors."""

    index: Any

    def search(self, query: Floats, k: int, allowed: Mask | None = None) -> tuple[Floats, Ints]:
        """Scores and rows [Q, k] of the best that were visited; -1 if too few of these are allowed."""
        chosen: dict[str, Any] = {"efSearch": max(SEARCH_BREADTH, 2 * k)}
        if allowed is not None:
            chosen["sel"] = _faiss().IDSelectorBitmap(np.packbits(allowed, bitorder="little"))
        scores, rows = self.index.search(query, k, params=_faiss().SearchParametersHNSW(**chosen))
        return scores, rows


def flat(rows: Floats) -> tuple[Searched, Any]:
    """A search through all vectors."""
    return _alone(flat_part(rows))


def inverted_codes(rows: Floats) -> tuple[Searched, Any]:
    """Inverted lists of codes with one byte per number; the best candidates are rescored exactly."""
    return _alone(inverted_part(rows))


def inverted_vectors(rows: Floats) -> tuple[Searched, Any]:
    """Inverted lists, as many, of the vectors themselves."""
    faiss, codes = _faiss(), inverted_part(rows).index
    centres = faiss.clone_index(codes.quantizer)  # would otherwise be freed with `codes`
    index = faiss.IndexIVFFlat(centres, codes.d, codes.nlist, faiss.METRIC_INNER_PRODUCT)
    index.add(np.pad(rows, ((0, 0), (0, codes.d - rows.shape[1]))))
    return _alone(Part(index, rows))


def graph(rows: Floats) -> tuple[Searched, Any]:
    """A graph, built with all threads."""
    faiss = _faiss()
    index = faiss.IndexHNSWFlat(rows.shape[1], NEIGHBOURS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = BUILD_BREADTH
    index.add(rows)
    return Graph(index), index


def _alone(part: Part) -> tuple[Searched, Any]:
    return Shortlist(part.vectors().shape[1], [part]), part.index


INDEX_KINDS: Mapping[str, Callable[[Floats], tuple[Searched, Any]]] = {
    "flat": flat,
    "IVF, SQ8": inverted_codes,
    "IVF, float32": inverted_vectors,
    "HNSW, float32": graph,
}


def measured_kinds(count: int) -> list[str]:
    """The kinds of indexes that are measured with `count` rows."""
    return [name for name, build in INDEX_KINDS.items() if build is not graph or count <= LARGEST_GRAPH]


def used_kind(count: int) -> str:
    """The kind of index that a service uses for `count` rows."""
    return "flat" if count < IVF_FROM else "IVF, SQ8"


def recall(found: npt.NDArray[np.int64], exact: npt.NDArray[np.int64]) -> float:
    """The share of the exact rows [Q, k] that are among those found."""
    same = [len(set(one) & set(best)) for one, best in zip(found.tolist(), exact.tolist(), strict=True)]
    return sum(same) / exact.size


def num_bytes(index: Any) -> int:
    """Bytes of an index as FAISS writes it."""
    faiss, written = _faiss(), list[int]()

    def count(content: bytes) -> int:
        written.append(len(content))
        return len(content)

    faiss.write_index(index, faiss.PyCallbackIOWriter(count))
    return sum(written)


def size_rows(count: int, dim: int, k: int, rounds: int, rates: MachineRates) -> Iterator[dict[str, Any]]:
    """A row for each kind of index with `count` vectors: recall of the k best without and with a filter, size, time to
    build, and time of single searches and of a batch."""
    rows, queries = drawn_pictures(count, dim, 1), drawn_sentences(ASKED, dim, 2)
    allowed = np.random.default_rng(3).permutation(count) < max(1, round(PASSING * count))
    table, k = torch.from_numpy(rows), min(k, count)
    few = min(k, int(allowed.sum()))

    def exact(query: Floats) -> torch.Tensor:
        return (table @ torch.from_numpy(query)).topk(k).indices

    best = np.stack([exact(query).numpy() for query in queries])
    best_allowed = np.flatnonzero(allowed)[np.argsort(-queries @ rows[allowed].T, axis=1)[:, :few]]
    floor = rates.floor(2.0 * rows.size, float(FLOAT_BYTES * rows.size))
    for name in measured_kinds(count):
        began = time.perf_counter()
        searched, index = INDEX_KINDS[name](rows)
        building = time.perf_counter() - began
        forms: dict[str, Callable[[], Any]] = {
            "ours": partial(_one_by_one, searched, queries, k),
            "exact": lambda: [exact(query) for query in queries],
            "together": partial(searched.search, queries, k),
        }
        turns = time_interleaved(forms, rounds)
        yield {
            "rows": count,
            "kind": name,
            "used": "yes" if name == used_kind(count) else "no",
            "k": k,
            "recall": recall(searched.search(queries, k)[1], best),
            "recall_filtered": recall(searched.search(queries, few, allowed)[1], best_allowed),
            "bytes_per_row": num_bytes(index) / count,
            "build_s": building,
            "ms_per_query": 1e3 * turns.median("ours") / ASKED,
            "ms_per_query_of_32": 1e3 * turns.median("together") / ASKED,
            "exact_ms_per_query": 1e3 * turns.median("exact") / ASKED,
            "floor_of_exact_ms": 1e3 * floor,
            "ratio_to_exact": turns.ratio("exact", "ours"),
        }


def _one_by_one(searched: Searched, queries: Floats, k: int) -> None:
    for query in queries:
        searched.search(query[None], k)


def shortlist_rows(
    counts: Sequence[int], dim: int, k: int, rounds: int, rates: MachineRates
) -> Iterator[dict[str, Any]]:
    """A row for each number of pictures and each kind of index."""
    for count in counts:
        yield from size_rows(count, dim, k, rounds, rates)
