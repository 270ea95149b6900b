"""Candidates: the rows that stage one selects, with the scores that stage two gives them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from index.records import Mask
from index.views.shortlist import Shortlist
from models.batches import tiles
from models.matching.log_odds import LogOddsModel, margins, prior_log_odds
from models.matching.match_verdict import MatchTest
from service.search.requests import SearchRequest

T = TypeVar("T")


class Search(Protocol):
    """Shortlist.search, or a function with the same results."""

    def __call__(
        self, shortlist: Shortlist, query: npt.NDArray[np.float32], k: int, allowed: Mask | None = None, /
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """Scores and rows of the best k of the allowed rows for each query."""


NO_SCORES = np.zeros(0, np.float32)


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Rows of a view in the shortlist's order, with scores. The position of a candidate is its index in `rows`, and in
    the arrays beside it.

    `gallery` counts the rows that a search without a filter chooses from. `unfiltered` is the shortlist of such a
    search, empty without a filter, and `unfiltered_scores` its scores of stage one: probabilities are computed against
    it, so that no filter changes them. `matched` is the verdict on the best candidate, None without one.
    """

    rows: Sequence[int]
    scores: npt.NDArray[np.float32]
    gallery: int
    unfiltered: Sequence[int] = ()
    unfiltered_scores: npt.NDArray[np.float32] = field(default_factory=lambda: NO_SCORES)
    probabilities: npt.NDArray[np.float64] | None = None
    matched: bool | None = None

    @classmethod
    def nearest(
        cls,
        shortlist: Shortlist,
        embedding: torch.Tensor,
        k: int,
        visible: Mask,
        passing: Mask | None = None,
        search: Search = Shortlist.search,
    ) -> Self:
        """The k visible rows nearest to a [1, E] embedding, of those `passing` a filter where there is one.

        Their scores are inner products with the embedding. `search` stands in for Shortlist.search.
        """
        query = embedding.float().cpu().numpy()
        scores, rows = nearest_rows(search, shortlist, query, k, visible if passing is None else passing)
        all_scores, unfiltered = NO_SCORES, list[int]()
        if passing is not None:
            all_scores, unfiltered = nearest_rows(search, shortlist, query, k, visible)
        gallery = int(visible[: len(shortlist)].sum())
        return cls(rows=rows, scores=scores, gallery=gallery, unfiltered=unfiltered, unfiltered_scores=all_scores)

    @property
    def rows_to_score(self) -> list[int]:
        """The candidates, then those of the unfiltered shortlist that the filter left out."""
        candidates = set(self.rows)
        return [*self.rows, *(row for row in self.unfiltered if row not in candidates)]

    def rescored(
        self,
        scores: npt.NDArray[np.float32],
        log_odds: LogOddsModel | None,
        num_right: float = 1.0,
        match_test: MatchTest | None = None,
    ) -> Self:
        """Candidates with a reranker's scores of `rows_to_score`, with probabilities that assume `num_right` relevant
        rows in the gallery, and with the verdict of the test. Without `log_odds` the scores of `rows` suffice."""
        row_scores = scores[: len(self.rows)]
        if log_odds is None or not self.rows:
            return replace(self, scores=row_scores)
        prior, row_margins = prior_log_odds(self.gallery, num_right), self._margins(scores)
        probabilities = log_odds.probability(row_scores, row_margins, prior)
        best = int(np.argmax(np.fmax(row_scores, -np.inf)))
        matched = None
        if match_test is not None:
            matched = match_test.verdict(float(row_scores[best]), float(row_margins[best]), prior)
        probabilities = never_falling(probabilities, row_scores)
        return replace(self, scores=row_scores, probabilities=probabilities, matched=matched)

    def raised_by(self, scores: npt.NDArray[np.float32]) -> Self:
        """Candidates with these numbers added to their scores; probabilities and verdict stay."""
        return replace(self, scores=self.scores + scores)

    def judged_by(self, test: MatchTest, offset: float) -> Self:
        """Candidates with the verdict of a test on the best score alone, with the question's offset added back."""
        if not self.rows:
            return self
        return replace(self, matched=test.verdict(float(np.fmax.reduce(self.scores)) + offset))

    def _margins(self, scores: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """The margin of each candidate: its score less the best other score of a search without the filter."""
        if not self.unfiltered:
            return margins(scores)
        score_of = dict(zip(self.rows_to_score, scores, strict=True))
        compared = np.array([score_of[row] for row in self.unfiltered])
        best = np.fmax.reduce(compared)
        margin_of = dict(zip(self.unfiltered, margins(compared), strict=True))
        # A candidate outside the unfiltered shortlist is compared with all of that shortlist.
        beyond = margins(np.stack([scores, np.full_like(scores, best)], axis=1))[:, 0]
        return np.array([margin_of.get(row, beyond[n]) for n, row in enumerate(self.rows)])

    def probability(self, position: int) -> float | None:
        """Probability of the candidate at this position of the shortlist; None without a calibration."""
        return None if self.probabilities is None else float(self.probabilities[position])

    def within_limits(self, request: SearchRequest) -> list[int]:
        """Positions in the shortlist, the best score first, without those below the request's limits."""
        order = [int(n) for n in np.argsort(-self.scores, kind="stable")]
        if request.min_score is not None:
            order = [n for n in order if float(self.scores[n]) >= request.min_score]
        if request.min_probability is not None and self.probabilities is not None:
            order = [n for n in order if self.probabilities[n] >= request.min_probability]
        return order

    def best(
        self, order: Sequence[int], k: int, fetch: Callable[[Sequence[int]], Sequence[T | None]]
    ) -> list[tuple[int, T]]:
        """(position, record) of the first k of `order` that still exist."""
        records = first_found([self.rows[n] for n in order], k, fetch)
        return [(order[index], record) for index, record in records]


def first_found(
    rows: Sequence[int], k: int, fetch: Callable[[Sequence[int]], Sequence[T | None]]
) -> list[tuple[int, T]]:
    """(index in `rows`, record) of the first k rows that still exist."""
    found: list[tuple[int, T]] = []
    for part in tiles(len(rows), k):
        records = fetch(rows[part])
        found += [(part.start + n, record) for n, record in enumerate(records) if record is not None]
        if len(found) >= k:
            break
    return found[:k]


def scores_of(candidates: Candidates, position: int) -> dict[str, Any]:
    """Score, probability and shortlist rank of the candidate at a position of the shortlist."""
    return {
        "score": float(candidates.scores[position]),
        "probability": candidates.probability(position),
        "shortlist_rank": position + 1,
    }


def nearest_rows(
    search: Search, shortlist: Shortlist, query: npt.NDArray[np.float32], k: int, allowed: Mask
) -> tuple[npt.NDArray[np.float32], list[int]]:
    """The k largest inner products of allowed rows with a [1, E] query, and the rows."""
    products, rows = search(shortlist, query, k, allowed)
    num_rows = int((rows[0] >= 0).sum())
    return products[0, :num_rows], rows[0, :num_rows].tolist()


def never_falling(probabilities: npt.NDArray[np.float64], scores: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Probabilities made to rise with the scores; NaN counts as the lowest score."""
    order = np.argsort(np.fmax(scores, -np.inf), kind="stable")
    raised = np.empty_like(probabilities)
    raised[order] = np.maximum.accumulate(probabilities[order])
    return raised
