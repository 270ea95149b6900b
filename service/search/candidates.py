"""Candidates: what stage one passes on, with the scores that stage two gives it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from index.records import Mask
from index.shortlist import Shortlist
from models.batches import tiles
from models.matching.calibration import LogOddsModel, margins, prior_log_odds
from service.search.requests import SearchRequest

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Rows of a view in the shortlist's order, with scores; `searched` counts the rows they were chosen from."""

    rows: Sequence[int]
    scores: npt.NDArray[np.float32]
    searched: int
    probabilities: npt.NDArray[np.float64] | None = None

    @classmethod
    def nearest(cls, shortlist: Shortlist, embedding: torch.Tensor, k: int, allowed: Mask) -> Self:
        """The k allowed rows nearest to a [1, E] embedding, scored by their inner products with it."""
        products, rows = shortlist.search(embedding.float().cpu().numpy(), k, allowed)
        found = int((rows[0] >= 0).sum())
        searched = int(allowed[: len(shortlist)].sum())
        return cls(rows=rows[0, :found].tolist(), scores=products[0, :found], searched=searched)

    def rescored(self, scores: npt.NDArray[np.float32], log_odds: LogOddsModel | None, num_right: float = 1.0) -> Self:
        """With a reranker's scores, and probabilities where `num_right` of the searched rows are expected right."""
        if log_odds is None or not self.rows:
            return replace(self, scores=scores)
        prior = prior_log_odds(self.searched, num_right)
        return replace(self, scores=scores, probabilities=log_odds.probability(scores, margins(scores), prior))

    def probability(self, position: int) -> float | None:
        """Probability of the candidate at this position of the shortlist; None without a calibration."""
        return None if self.probabilities is None else float(self.probabilities[position])

    def passing(self, request: SearchRequest) -> list[int]:
        """Positions in the shortlist, the best score first, without those below the request's limits."""
        order = [int(n) for n in np.argsort(-self.scores, kind="stable")]
        if request.min_score is not None:
            order = [n for n in order if self.scores[n] >= request.min_score]
        if request.min_probability is not None and self.probabilities is not None:
            order = [n for n in order if self.probabilities[n] >= request.min_probability]
        return order

    def best(
        self, order: Sequence[int], k: int, fetch: Callable[[Sequence[int]], Sequence[T | None]]
    ) -> list[tuple[int, T]]:
        """(position, record) of the first k of `order`; one that vanished meanwhile makes room for the next."""
        best: list[tuple[int, T]] = []
        for part in tiles(len(order), k):
            records = fetch([self.rows[n] for n in order[part]])
            best += [(n, record) for n, record in zip(order[part], records, strict=True) if record is not None]
            if len(best) >= k:
                break
        return best[:k]
