"""Concurrent searches of a shortlist, batched: queries that arrive while one runs are searched together."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from index.records import Mask
from index.views.shortlist import Floats, Ints, Shortlist

MAX_BATCH = 16  # from 20 queries on FAISS multiplies matrices, which rounds differently from a single search


class Found(NamedTuple):
    """The result of Shortlist.search."""

    scores: Floats
    rows: Ints


@dataclass(eq=False)
class _Search:
    """A query [1, E], and its result once there is one."""

    query: Floats
    found: Found | None = None


@dataclass
class _Group:
    """Searches of one shortlist with the same k and the same allowed rows."""

    shortlist: Shortlist  # referenced, so that its id() is not reused
    waiting: list[_Search] = field(default_factory=list)
    running: threading.Lock = field(default_factory=threading.Lock)
    callers: int = 0


class SharedSearches:
    """Batched searches for many threads. A result is that of a search for the query alone."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: dict[tuple[int, int, bytes | None], _Group] = {}

    def callers(self) -> list[int]:
        """The number of threads in each group of searches; a group ends with its last thread."""
        with self._lock:
            return [group.callers for group in self._groups.values()]

    def search(self, shortlist: Shortlist, query: Floats, k: int, allowed: Mask | None = None) -> Found:
        """`shortlist.search` of one query [1, E]."""
        key = id(shortlist), k, None if allowed is None else np.packbits(allowed[: len(shortlist)]).tobytes()
        request = _Search(query)
        with self._lock:
            group = self._groups.setdefault(key, _Group(shortlist))
            group.waiting.append(request)
            group.callers += 1
        try:
            with group.running:
                if request.found is None:
                    self._search_batch(group, request, k, allowed)
        finally:
            with self._lock:
                group.callers -= 1
                if request in group.waiting:  # the search failed before its turn
                    group.waiting.remove(request)
                if not group.callers:
                    del self._groups[key]
        assert request.found is not None
        return request.found

    def _search_batch(self, group: _Group, request: _Search, k: int, allowed: Mask | None) -> None:
        """Search for a query and those that have waited longest; if that fails, for the query alone."""
        with self._lock:
            companions = [search for search in group.waiting if search is not request][: MAX_BATCH - 1]
            group.waiting = [search for search in group.waiting if search is not request and search not in companions]
        try:
            _search_for([request, *companions], group.shortlist, k, allowed)
        except BaseException as fault:
            with self._lock:
                group.waiting = [*companions, *group.waiting]
            if not companions or not isinstance(fault, Exception):
                raise
            _search_for([request], group.shortlist, k, allowed)


def _search_for(searches: Sequence[_Search], shortlist: Shortlist, k: int, allowed: Mask | None) -> None:
    scores, rows = shortlist.search(np.concatenate([search.query for search in searches]), k, allowed)
    for number, search in enumerate(searches):
        search.found = Found(scores[number : number + 1], rows[number : number + 1])
