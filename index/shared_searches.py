"""Searches of a shortlist that are asked for side by side: what comes while one runs is searched for together."""

import threading
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from index.records import Mask
from index.shortlist import Floats, Ints, Shortlist

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
                while own.found is None:
                    self._search_next(group, k, allowed)
        finally:
            with self._lock:
                group.callers -= 1
                if own in group.waiting:  # the search failed before its turn
                    group.waiting.remove(own)
                if not group.callers:
                    del self._groups[key]
        return own.found

    def _search_next(self, group: _Group, k: int, allowed: Mask | None) -> None:
        with self._lock:
            taken, group.waiting = group.waiting[:TOGETHER], group.waiting[TOGETHER:]
        try:
            scores, rows = group.shortlist.search(np.concatenate([one.query for one in taken]), k, allowed)
        except BaseException:
            with self._lock:  # this caller's own is among them or comes later; the others try for themselves
                group.waiting = [*taken, *group.waiting]
            raise
        for number, one in enumerate(taken):
            one.found = Found(scores[number : number + 1], rows[number : number + 1])
