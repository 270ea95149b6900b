"""The shortlist's benchmark compares kinds of indexes with an exact search."""

import faiss
import numpy as np
import pytest

from index.views.shortlist import IVF_FROM
from models.bench.timing import MachineRates
from service.bench.shortlist import (
    INDEX_KINDS,
    LARGEST_GRAPH,
    graph,
    measured_kinds,
    num_bytes,
    recall,
    size_rows,
    used_kind,
)

RATES = MachineRates(flops=1e12, reads=1e10)


def test_recall_is_the_share_of_the_exact_rows() -> None:
    exact = np.array([[1, 2], [3, 4]])
    assert recall(exact[:, ::-1], exact) == 1.0
    assert recall(np.array([[1, 9], [8, -1]]), exact) == 0.25


@pytest.fixture(scope="module")
def measured() -> dict[str, dict[str, float]]:
    """The rows of 2 000 pictures, by kind."""
    return {row["kind"]: row for row in size_rows(2_000, 64, 100, 1, RATES)}


def test_every_kind_has_its_figures(measured: dict[str, dict[str, float]]) -> None:
    assert list(measured) == list(INDEX_KINDS)
    for row in measured.values():
        figures = {"ms_per_query", "ms_per_query_of_32", "exact_ms_per_query", "ratio_to_exact", "build_s"}
        assert figures <= {name for name, one in row.items() if not isinstance(one, str) and one > 0}
        assert row["floor_of_exact_ms"] == pytest.approx(1e3 * 2_000 * 64 * 4 / 1e10)


def test_an_exact_shortlist_misses_nothing(measured: dict[str, dict[str, float]]) -> None:
    assert measured["flat"]["recall"] == measured["flat"]["recall_filtered"] == 1.0


def test_codes_lose_nothing_that_lists_of_vectors_find(measured: dict[str, dict[str, float]]) -> None:
    codes, vectors = measured["IVF, SQ8"], measured["IVF, float32"]
    assert codes["recall"] >= vectors["recall"] - 0.002
    assert codes["recall_filtered"] == 1.0  # a filter that lets little through looks through all lists
    assert codes["bytes_per_row"] < vectors["bytes_per_row"] < measured["HNSW, float32"]["bytes_per_row"]


def test_bytes_are_those_of_the_file() -> None:
    searched, index = graph(np.eye(40, 16, dtype=np.float32))
    assert num_bytes(index) == len(faiss.serialize_index(index))
    _, found = searched.search(np.eye(1, 16, dtype=np.float32), 3, np.arange(40) < 5)
    assert set(found[0]) < {-1, 0, 1, 2, 3, 4}


def test_the_kind_that_is_used_follows_the_size() -> None:
    assert (used_kind(IVF_FROM - 1), used_kind(IVF_FROM)) == ("flat", "IVF, SQ8")


def test_a_graph_is_left_out_where_it_would_take_long() -> None:
    assert measured_kinds(LARGEST_GRAPH) == list(INDEX_KINDS)
    assert measured_kinds(LARGEST_GRAPH + 1) == ["flat", "IVF, SQ8", "IVF, float32"]
