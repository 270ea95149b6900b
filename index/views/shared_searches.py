"""Searches of a shortlist that are asked for side by side: what comes while one runs is searched for together."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from index.records import Mask
from index.views.shortlist import Floats, Ints, Shortlist

TOGETHER = 16  # from 20 queries on FAISS multiplies matrices, which rounds otherwise than a search for one query


class Found(NamedTuple):
    """The result of Shortlist.search."""

    scores: Floats
    rows: Ints


@dataclass(eq=False)
class _Search:
    """A query [1, E], and its answer once there is one."""

    query: Floats
    found: Found | None = None


@dataclass
class _Group:
    """Searches of one shortlist for the same number of the same allowed rows."""

    shortlist: Shortlist  # kept, so that no other gets its identity meanwhile
    waiting: list[_Search] = field(default_factory=list)
    running: threading.Lock = field(default_factory=threading.Lock)
    callers: int = 0


class SharedSearches:
    """Searches for many threads. An answer is what the query's own search would have given."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: dict[tuple[int, int, bytes | None], _Group] = {}

    def callers(self) -> list[int]:
        """The number of threads in each group of searches; groups that nobody is in are not kept."""
        with self._lock:
            return [group.callers for group in self._groups.values()]

    def search(self, shortlist: Shortlist, query: Floats, k: int, allowed: Mask | None = None) -> Found:
        """`shortlist.search` of one query [1, E]."""
        key = id(shortlist), k, None if allowed is None else np.packbits(allowed[: len(shortlist)]).tobytes()
        own = _Search(query)
        with self._lock:
            group = self._groups.setdefault(key, _Group(shortlist))
            group.waiting.append(own)
            group.callers += 1
        try:
            with group.running:
                if own.found is None:
                    self._search_with_others(group, own, k, allowed)
        finally:
            with self._lock:
                group.callers -= 1
                if own in group.waiting:  # the search failed before its turn
                    group.waiting.remove(own)
                if not group.callers:
                    del self._groups[key]
        assert own.found is not None
        return own.found

    def _search_with_others(self, group: _Group, own: _Search, k: int, allowed: Mask | None) -> None:
        """Search for a query, and for those that have waited longest; where that fails, for the query alone."""
        with self._lock:
            others = [one for one in group.waiting if one is not own][: TOGETHER - 1]
            group.waiting = [one for one in group.waiting if one is not own and one not in others]
        try:
            _search_for([own, *others], group.shortlist, k, allowed)
        except BaseException as fault:
            with self._lock:
                group.waiting = [*others, *group.waiting]
            if not others or not isinstance(fault, Exception):
                raise
            _search_for([own], group.shortlist, k, allowed)


def _search_for(searches: Sequence[_Search], shortlist: Shortlist, k: int, allowed: Mask | None) -> None:
    scores, rows = shortlist.search(np.concatenate([one.query for one in searches]), k, allowed)
    for number, one in enumerate(searches):
        one.found = Found(scores[number : number + 1], rows[number : number + 1])
