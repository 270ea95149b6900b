"""Searches side by side: one search of FAISS answers those that waited, and each gets what its own would have given."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest

from index.views.shared_searches import Found, SharedSearches
from index.views.shortlist import Floats, Ints, Shortlist

DIM, PATIENCE_S, POISON = 8, 30.0, 9e9


class Watched(Shortlist):
    """A shortlist that waits in its first search until it is let go on, and notes how many queries each has."""

    def __init__(self, dim: int, parts: object = (), ivf_from: int = 10_000) -> None:
        super().__init__(dim, parts, ivf_from)  # type: ignore[arg-type]
        self.asked: list[int] = []
        self.begun, self.go = threading.Event(), threading.Event()
        self.fails = False

    def search(self, query: Floats, k: int, allowed: object = None) -> tuple[Floats, Ints]:
        self.asked.append(len(query))
        self.begun.set()
        assert self.go.wait(PATIENCE_S)
        if self.fails and len(self.asked) == 1:
            raise RuntimeError("no memory")
        if (query == POISON).any():
            raise RuntimeError("a query that cannot be searched for")
        return super().search(query, k, allowed)  # type: ignore[arg-type]


def filled(rows: int = 300, seed: int = 1) -> Watched:
    return Watched(DIM).extended(np.random.default_rng(seed).standard_normal((rows, DIM)).astype(np.float32))


def wait_for(searches: SharedSearches, count: int) -> None:
    """Until so many callers are in the searches."""
    ticks = threading.Event()
    for _ in range(3000):
        if sum(searches.callers()) == count:
            return
        ticks.wait(0.01)
    raise AssertionError("the callers never came")


def all_waiting(
    threads: ThreadPoolExecutor, searches: SharedSearches, shortlist: Watched, queries: Floats
) -> list[Future[Found]]:
    """Searches for each query [1, E], of which the first has begun and the others wait, before all go on."""
    first = threads.submit(searches.search, shortlist, queries[0], 3)
    assert shortlist.begun.wait(PATIENCE_S)
    rest = [threads.submit(searches.search, shortlist, query, 3) for query in queries[1:]]
    wait_for(searches, len(queries))
    shortlist.go.set()
    return [first, *rest]


@pytest.mark.parametrize("filtered", [False, True])
def test_what_waits_is_searched_for_together_and_answered_alike(filtered: bool) -> None:
    shortlist, searches, rng = filled(), SharedSearches(), np.random.default_rng(2)
    queries = rng.standard_normal((40, 1, DIM)).astype(np.float32)
    allowed = rng.random(300) < 0.5 if filtered else None
    with ThreadPoolExecutor(len(queries)) as threads:
        first = threads.submit(searches.search, shortlist, queries[0], 7, allowed)
        assert shortlist.begun.wait(PATIENCE_S)
        rest = [
            threads.submit(searches.search, shortlist, query, 7, None if allowed is None else allowed.copy())
            for query in queries[1:]
        ]
        wait_for(searches, 40)
        shortlist.go.set()
        found = [one.result(PATIENCE_S) for one in [first, *rest]]
    assert shortlist.asked == [1, 16, 16, 7]
    for query, (scores, rows) in zip(queries, found, strict=True):
        expected_scores, expected_rows = shortlist.search(query, 7, allowed)
        np.testing.assert_array_equal(rows, expected_rows)
        np.testing.assert_array_equal(scores, expected_scores)
    assert searches.callers() == []


def test_other_filters_lengths_and_shortlists_do_not_wait_for_each_other() -> None:
    searches, blocked, other = SharedSearches(), filled(), filled(seed=5)
    other.go.set()
    query, some = np.ones((1, DIM), np.float32), np.arange(300) < 9
    with ThreadPoolExecutor(1) as threads:
        held: Future[object] = threads.submit(searches.search, blocked, query, 3)
        assert blocked.begun.wait(PATIENCE_S)
        assert set(searches.search(other, query, 3, some).rows[0]) <= set(range(9))
        assert searches.search(other, query, 5).rows.shape == (1, 5)
        assert not held.done()
        blocked.go.set()
        held.result(PATIENCE_S)
    assert searches.callers() == []


def test_a_search_that_fails_fails_its_caller_alone() -> None:
    shortlist, searches = filled(), SharedSearches()
    shortlist.fails = True
    queries = np.random.default_rng(3).standard_normal((5, 1, DIM)).astype(np.float32)
    with ThreadPoolExecutor(5) as threads:
        first, *rest = all_waiting(threads, searches, shortlist, queries)
        with pytest.raises(RuntimeError, match="no memory"):
            first.result(PATIENCE_S)
        for query, one in zip(queries[1:], rest, strict=True):
            np.testing.assert_array_equal(one.result(PATIENCE_S).rows, shortlist.search(query, 3)[1])
    assert searches.callers() == []


def test_a_query_that_cannot_be_searched_for_fails_no_other_caller() -> None:
    shortlist, searches = filled(), SharedSearches()
    queries = np.random.default_rng(4).standard_normal((40, 1, DIM)).astype(np.float32)
    queries[7] = POISON
    with ThreadPoolExecutor(40) as threads:
        found = all_waiting(threads, searches, shortlist, queries)
        with pytest.raises(RuntimeError, match="cannot be searched for"):
            found.pop(7).result(PATIENCE_S)
        for query, one in zip(np.delete(queries, 7, axis=0), found, strict=True):
            np.testing.assert_array_equal(one.result(PATIENCE_S).rows, shortlist.search(query, 3)[1])
    assert searches.callers() == []
