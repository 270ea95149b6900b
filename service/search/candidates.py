"""What stage one passes on, what it scored, and the best of it that is still there."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from index.shortlist import Shortlist
from models.batches import tiles
from models.matching.calibration import LogOddsModel, margins, prior_log_odds
from service.search.types import Question

T = TypeVar("T")
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Rows of a view in the shortlist's order, with scores; `searched` counts what they were chosen from."""

    rows: Sequence[int]
    scores: npt.NDArray[np.float32]
    searched: int
    probabilities: npt.NDArray[np.float64] | None = None

    @classmethod
    def shortlisted(cls, shortlist: Shortlist, embedding: torch.Tensor, k: int, allowed: Mask) -> Self:
        """Stage one's k best of what is allowed; the scores are its cosines."""
        cosines, rows = shortlist.search(embedding.float().cpu().numpy(), k, allowed)
        found = int((rows[0] >= 0).sum())
        searched = int(allowed[: len(shortlist)].sum())
        return cls(rows=rows[0, :found].tolist(), scores=cosines[0, :found], searched=searched)

    def scored(self, scores: npt.NDArray[np.float32], evidence: LogOddsModel | None, num_right: float = 1.0) -> Self:
        """Reranked; probable as the evidence says where `num_right` of all that was searched are expected right."""
        if evidence is None or not self.rows:
            return replace(self, scores=scores)
        prior = prior_log_odds(self.searched, num_right)
        return replace(self, scores=scores, probabilities=evidence.probability(scores, margins(scores), prior))

    def probability(self, place: int) -> float | None:
        """Of the candidate in this place of the shortlist."""
        return None if self.probabilities is None else float(self.probabilities[place])

    def passing(self, question: Question) -> list[int]:
        """Places in the shortlist, the best score first, without those below what is asked for."""
        order = [int(n) for n in np.argsort(-self.scores, kind="stable")]
        if question.min_score is not None:
            order = [n for n in order if self.scores[n] >= question.min_score]
        if question.min_probability is not None and self.probabilities is not None:
            order = [n for n in order if self.probabilities[n] >= question.min_probability]
        return order

    def best(
        self, order: Sequence[int], k: int, fetch: Callable[[Sequence[int]], Sequence[T | None]]
    ) -> list[tuple[int, T]]:
        """(place, what is there now) of the first k of `order`; what vanished meanwhile makes room for the next."""
        best: list[tuple[int, T]] = []
        for part in tiles(len(order), k):
            things = fetch([self.rows[n] for n in order[part]])
            best += [(n, thing) for n, thing in zip(order[part], things, strict=True) if thing is not None]
            if len(best) >= k:
                break
        return best[:k]
