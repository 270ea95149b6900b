"""Stage one of a search: the rows whose embeddings have the largest inner product with the query's."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

import faiss
import numpy as np
import numpy.typing as npt

from index.records import Mask

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

untyped: Any = faiss  # its stubs have only the C++ constructors, not the Python ones

IVF_FROM = 100_000  # rows from which an index with inverted lists is worth building
GROWTH = 8  # the newest parts are merged into the one before when they reach an eighth of its rows
PROBED_LISTS = 40  # of about sqrt(rows): an eighth at 100 000 rows, a twenty-fifth at a million, for the same recall
PROBED = 1 / 32  # the smallest share of the lists
RESCORED = 1.5  # times k rows are found by their codes, then compared exactly
TRAINING_ROWS_PER_LIST = 64
ADDED_AT_ONCE = 1 << 16  # rows
LANES = 16  # FAISS compares codes ten times as fast if the width is a multiple of this


@dataclass(frozen=True)
class Part:
    """Consecutive rows in one FAISS index, which never grows: FAISS cannot search while adding.

    An index of inverted lists (IVF) holds a byte for each number of a vector (SQ8). It preselects rows, which are then
    scored and sorted by `exact`, the [rows, dim] vectors themselves, which may lie in a mapped file. A flat index holds
    the vectors, and `exact` is None.
    """

    index: Any
    exact: Floats | None = None
    stale: frozenset[int] = frozenset()
    """Rows whose vectors were replaced after indexing: every search compares them exactly."""

    def __len__(self) -> int:
        """Number of rows."""
        return int(self.index.ntotal)

    @property
    def is_flat(self) -> bool:
        """Whether the index compares the vectors of all rows, instead of preselecting rows by their codes."""
        return self.exact is None

    def search(self, query: Floats, k: int, allowed: Mask | None) -> tuple[Floats, Ints]:
        """Scores and rows [Q, min(k, rows allowed)] of the best allowed rows, numbered from the part's start.

        Missing rows are -1 (score -inf). Among equal scores at the cut, a flat index prefers the first rows.
        """
        num_allowed = len(self) if allowed is None else int(np.count_nonzero(allowed))
        k = min(k, num_allowed)
        if k == 0:
            return np.empty((len(query), 0), np.float32), np.empty((len(query), 0), np.int64)
        # Without a selector FAISS may use one matrix product for many queries.
        selector = {}
        if allowed is not None and num_allowed < len(self):
            selector["sel"] = untyped.IDSelectorBitmap(np.packbits(allowed, bitorder="little"))
        if self.exact is None:
            return self._search_flat(query, k, num_allowed, untyped.SearchParameters(**selector))
        rows = self._preselected(query, k, num_allowed, selector)
        return _rescored(self.exact, query, self._with_stale(rows, allowed), k)

    def _preselected(self, query: Floats, k: int, num_allowed: int, selector: Mapping[str, Any]) -> Ints:
        """Rows [Q, n] whose codes are nearest to the queries, somewhat more than k, of those that a selector admits."""
        # A filter must not cost recall: the fewer rows pass, the more lists are probed, in the end all.
        num_lists = self.index.nlist
        compared = max(PROBED, PROBED_LISTS / num_lists) * len(self)
        num_probed = min(num_lists, math.ceil(num_lists * max(compared, 8 * k) / num_allowed))
        num_found, padded = min(num_allowed, math.ceil(RESCORED * k) + len(self.stale)), _padded(query)
        for lists in (num_probed, num_lists):  # all of them, if those probed hold too few rows
            params = untyped.SearchParametersIVF(nprobe=lists, **selector)
            rows: Ints = self.index.search(padded, num_found, params=params)[1]
            if (rows[:, k - 1] >= 0).all():
                break
        return rows

    def _with_stale(self, rows: Ints, allowed: Mask | None) -> Ints:
        """[Q, n] rows, with every allowed stale row exactly once, wherever its former vector placed it."""
        if not self.stale:
            return rows
        stale = np.array(sorted(self.stale))
        fresh = np.where(np.isin(rows, stale), -1, rows)
        if allowed is not None:
            stale = stale[allowed[stale]]
        return np.concatenate([fresh, np.broadcast_to(stale, (len(rows), len(stale)))], axis=1)

    def _search_flat(self, query: Floats, k: int, num_allowed: int, params: Any) -> tuple[Floats, Ints]:
        """The exact best k of a flat index, among `num_allowed` rows that the parameters admit."""
        scores, rows = self.index.search(query, min(k + 1, num_allowed), params=params)
        # FAISS keeps arbitrary rows of equal score: the row after the cut shows whether there was a choice.
        if k < num_allowed:
            is_tied = (scores[:, k - 1] == scores[:, k]) & (rows[:, k] >= 0)
            for place in np.flatnonzero(is_tied):
                single = slice(place, place + 1)
                scores[single, :k], rows[single, :k] = self._first_of_equals(query[single], k, params)
        return scores[:, :k], rows[:, :k]

    def _first_of_equals(self, query: Floats, k: int, params: Any) -> tuple[Floats, Ints]:
        """The best k for a query [1, dim], the first rows among equal scores: chosen from all rows no worse than the
        k-th."""
        alone, _ = self.index.search(query, k, params=params)  # a batch may be summed in another order
        below = np.nextafter(alone[0, -1] - np.finfo(np.float32).tiny, np.float32(-np.inf))
        _, scores, rows = self.index.range_search(query, float(below), params=params)
        return _best(scores[None], rows[None], k)

    def overwritten(self, rows: Collection[int], vectors: Floats) -> "Part":
        """The part with its [len(self), dim] current vectors, which differ from the former ones in these rows."""
        if self.exact is not None:
            return replace(self, exact=vectors, stale=self.stale.union(rows))
        return flat_part(vectors) if rows else self

    def vectors(self) -> Floats:
        """[rows, dim] embeddings, not copied; those of a flat index are valid as long as the index."""
        if self.exact is not None:
            return self.exact
        flat = faiss.rev_swig_ptr(self.index.get_xb(), self.index.ntotal * self.index.d)
        return np.asarray(flat, np.float32).reshape(-1, self.index.d)


def flat_part(rows: Floats) -> Part:
    """A part with a copy of [n, dim] rows, searched exactly."""
    index = faiss.IndexFlatIP(rows.shape[1])
    index.add(np.ascontiguousarray(rows, np.float32))
    return Part(index)


def inverted_part(exact: Floats) -> Part:
    """A part of [n, dim] rows, searched approximately with about sqrt(n) inverted lists; references `exact`.

    Built by one thread, whatever FAISS is configured for, to leave the other cores to searches.
    """
    num_rows, dim = len(exact), code_width(exact.shape[1])
    num_lists = max(1, math.isqrt(num_rows))
    quantizer, code = faiss.IndexFlatIP(dim), faiss.ScalarQuantizer.QT_8bit
    index = faiss.IndexIVFScalarQuantizer(quantizer, dim, num_lists, code, faiss.METRIC_INNER_PRODUCT)
    index.cp.min_points_per_centroid = 1  # no warning for small stores
    sample = np.random.default_rng(0).permutation(num_rows)[: TRAINING_ROWS_PER_LIST * num_lists]
    with _one_thread():
        index.train(_padded(exact[np.sort(sample)]))
        for start in range(0, num_rows, ADDED_AT_ONCE):
            index.add(_padded(exact[start : start + ADDED_AT_ONCE]))
    return Part(index, exact)


def code_width(dim: int) -> int:
    """Bytes of the code of a `dim`-dimensional vector."""
    return math.ceil(dim / LANES) * LANES


def _padded(vectors: Floats) -> Floats:
    """[n, code_width(dim)] vectors padded with zeros, which change no inner product."""
    dim = vectors.shape[1]
    return np.pad(vectors, ((0, 0), (0, code_width(dim) - dim)))


@contextmanager
def _one_thread() -> Iterator[None]:
    """Limit FAISS to one thread in the calling thread; other threads keep their setting."""
    num_threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(num_threads)


class Shortlist:
    """Embeddings to search by inner product. Immutable, and so safe to search from any thread.

    `extended`, `overwritten` and `indexed` return new shortlists that share the large data. Rows lie in a few parts: an
    index of inverted lists, if one was built, then flat ones, each several times larger than the next, so that a row is
    copied a bounded number of times however slowly the shortlist grows.
    """

    def __init__(self, dim: int, parts: Sequence[Part] = (), ivf_from: int = IVF_FROM) -> None:
        """A shortlist of [rows, dim] parts that needs an index from `ivf_from` rows on."""
        self.dim = dim
        self.parts = tuple(parts)
        self._ivf_from = ivf_from

    def __len__(self) -> int:
        """Number of rows."""
        return sum(map(len, self.parts))

    def extended(self, embeddings: Floats) -> Self:
        """A shortlist with [n, dim] float32 embeddings as the next rows; ValueError for another width. Always quick:
        new rows are searched exactly until an index contains them."""
        if embeddings.ndim != 2 or embeddings.shape[1] != self.dim:
            raise ValueError(f"embeddings are [n, {self.dim}], not {list(embeddings.shape)}")
        if len(embeddings) == 0:
            return self
        kept_parts, size = list(self.parts), len(embeddings)
        absorbed: list[Part] = []
        while kept_parts and kept_parts[-1].is_flat and len(kept_parts[-1]) <= GROWTH * size:
            size += len(kept_parts[-1])
            absorbed.insert(0, kept_parts.pop())
        fresh = flat_part(np.concatenate([*(part.vectors() for part in absorbed), embeddings]))
        return type(self)(self.dim, [*kept_parts, fresh], self._ivf_from)

    def overwritten(self, rows: Collection[int], embeddings: Floats) -> Self:
        """The shortlist with new vectors for some of its rows, taken from the [len(self), dim] embeddings of all rows.

        Where an index contains these rows, their new vectors are searched exactly.
        """
        parts = [
            part.overwritten([row - start for row in rows if start <= row < stop], embeddings[start:stop])
            for part, start, stop in self._placed()
        ]
        return type(self)(self.dim, parts, self._ivf_from)

    def _placed(self) -> Iterator[tuple[Part, int, int]]:
        """Each part with its first row and the row after its last."""
        stop = 0
        for part in self.parts:
            start, stop = stop, stop + len(part)
            yield part, start, stop

    @property
    def index_is_due(self) -> bool:
        """Whether enough rows lie outside indexes of inverted lists for a new index of all rows to be worth
        building."""
        indexed = sum(len(part) - len(part.stale) for part in self.parts if not part.is_flat)
        return len(self) >= self._ivf_from and GROWTH * (len(self) - indexed) >= indexed

    def indexed(self, part: Part) -> Self:
        """The shortlist with its first rows replaced by the part, which was built from them.

        ValueError where it has fewer rows than the part.
        """
        if len(part) > len(self):
            raise ValueError(f"the shortlist has {len(self)} rows, the index {len(part)}")
        parts = [part]
        for old, start, stop in self._placed():
            if start >= len(part):
                parts.append(old)
            elif stop > len(part):
                parts.append(flat_part(old.vectors()[len(part) - start :]))
        return type(self)(self.dim, parts, self._ivf_from)

    def search(self, query: Floats, k: int, allowed: Mask | None = None) -> tuple[Floats, Ints]:
        """The best k of the allowed rows for each of [Q, dim] queries: scores [Q, k] descending, rows [Q, k].

        Where fewer are allowed, the rest is -1 (score -inf). `allowed` may be shorter than the shortlist (rows past its
        end are not allowed) or longer. Equal scores are sorted by row; at the cut too, except within an index of
        inverted lists.
        """
        if query.ndim != 2 or query.shape[1] != self.dim or k < 1:
            raise ValueError(f"a query is [Q, {self.dim}] and k at least 1, not {list(query.shape)}, {k}")
        query = np.ascontiguousarray(query, np.float32)
        found_scores = [np.full((len(query), k), -np.inf, np.float32)]
        found_rows = [np.full((len(query), k), -1, np.int64)]
        has_codes = not all(part.is_flat for part in self.parts)
        for part, start, stop in self._placed():
            scores, rows = part.search(query, k, None if allowed is None else _cut(allowed, start, stop))
            if has_codes and part.is_flat:  # FAISS sums in another order, so that equal vectors would score differently
                scores, rows = _rescored(part.vectors(), query, rows, k)
            found_scores.append(np.where(rows < 0, np.float32(-np.inf), scores))
            found_rows.append(np.where(rows < 0, -1, rows + start))
        return _best(np.concatenate(found_scores, axis=1), np.concatenate(found_rows, axis=1), k)


def _cut(allowed: Mask, start: int, stop: int) -> Mask:
    """[stop - start] the mask of the part, False past the end of `allowed`."""
    share = allowed[start:stop]
    missing = stop - start - len(share)
    return np.pad(share, (0, missing)) if missing else share


def _rescored(exact: Floats, query: Floats, rows: Ints, k: int) -> tuple[Floats, Ints]:
    """The best k of the rows [Q, n] for [Q, dim] queries, by exact inner products; a row of -1 is none."""
    # Not a matrix product, in which a row's score could depend on the other rows.
    scores = np.einsum("qnd,qd->qn", exact[rows], query)
    return _best(np.where(rows < 0, np.float32(-np.inf), scores), rows, k)


def _best(scores: Floats, rows: Ints, k: int) -> tuple[Floats, Ints]:
    order = np.lexsort((rows, -scores), axis=-1)[:, :k]
    return np.take_along_axis(scores, order, axis=1), np.take_along_axis(rows, order, axis=1)
