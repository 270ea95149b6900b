"""Candidates: what stage one passes on, with the scores that stage two gives it."""

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
    """Shortlist.search, or what answers as it does."""

    def __call__(
        self, shortlist: Shortlist, query: npt.NDArray[np.float32], k: int, allowed: Mask | None = None, /
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """Scores and rows of the best k of the allowed rows for each query."""


NO_SCORES = np.zeros(0, np.float32)


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Rows of a view in the shortlist's order, with scores.

    `gallery` counts the rows that a search without a filter chooses from. `unfiltered` is the shortlist that such a
    search has, empty where there is no filter: probabilities compare with its scores, so that no filter changes them;
    `unfiltered_scores` are those of stage one.
    `matched` is the verdict on the best of them, None where there is none.
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

        They are scored by their inner products with the embedding. `search` searches as the shortlist itself does.
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
        """Candidates with a reranker's scores of `rows_to_score`, probabilities where `num_right` of the gallery's rows
        are expected right, and the verdict of the test."""
        own = scores[: len(self.rows)]
        if log_odds is None or not self.rows:
            return replace(self, scores=own)
        prior, above = prior_log_odds(self.gallery, num_right), self._margins(scores)
        probabilities = log_odds.probability(own, above, prior)
        best = int(np.argmax(np.fmax(own, -np.inf)))
        matched = match_test.verdict(float(own[best]), float(above[best]), prior) if match_test else None
        return replace(self, scores=own, probabilities=never_falling(probabilities, own), matched=matched)

    def judged_by(self, test: MatchTest, offset: float) -> Self:
        """Candidates with the verdict of a test on the best score alone, before the question's offset was taken off."""
        if not self.rows:
            return self
        return replace(self, matched=test.verdict(float(np.fmax.reduce(self.scores)) + offset))

    def _margins(self, scores: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """The margin of each candidate: its score less the best other score of a search without the filter."""
        if not self.unfiltered:
            return margins(scores)
        score_of = dict(zip(self.rows_to_score, scores, strict=True))
        compared = np.array([score_of[row] for row in self.unfiltered])
        margin_of = dict(zip(self.unfiltered, margins(compared), strict=True))
        # A candidate further down than an unfiltered shortlist reaches: all of that shortlist are others.
        beyond = margins(np.stack([scores, np.full_like(scores, np.fmax.reduce(compared))], axis=1))[:, 0]
        return np.array([margin_of.get(row, beyond[n]) for n, row in enumerate(self.rows)])

    def probability(self, position: int) -> float | None:
        """Probability of the candidate at this position of the shortlist; None without a calibration."""
        return None if self.probabilities is None else float(self.probabilities[position])

    def passing(self, request: SearchRequest) -> list[int]:
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
        """(position, record) of the first k of `order`; one that vanished meanwhile makes room for the next."""
        found = first_found([self.rows[n] for n in order], k, fetch)
        return [(order[place], record) for place, record in found]


def first_found(
    rows: Sequence[int], k: int, fetch: Callable[[Sequence[int]], Sequence[T | None]]
) -> list[tuple[int, T]]:
    """(place in `rows`, record) of the first k; one that vanished meanwhile makes room for the next."""
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
    """Inner products with a [1, E] query of the k allowed rows where these are largest, and the rows."""
    products, rows = search(shortlist, query, k, allowed)
    found = int((rows[0] >= 0).sum())
    return products[0, :found], rows[0, :found].tolist()


def never_falling(probabilities: npt.NDArray[np.float64], scores: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Probabilities of which none is below that of a lower score; a score that is NaN is the lowest."""
    order = np.argsort(np.fmax(scores, -np.inf), kind="stable")
    raised = np.empty_like(probabilities)
    raised[order] = np.maximum.accumulate(probabilities[order])
    return raised
