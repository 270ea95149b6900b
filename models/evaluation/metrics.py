"""Recall@k, median rank and rsum by the field's protocol (VSE++, SCAN), with rules for ties and NaN.

A rank is the number of candidates before the right one: 0 is best. A tie counts against the model (every equal
candidate is before), so a constant score earns nothing; NaN counts as the worst score.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

QUESTIONS_AT_ONCE = 64  # few, so that little memory is needed beside a matrix of 25 000 x 5 000 scores


@dataclass(frozen=True)
class Recalls:
    """Percentages of queries whose right answer is among the first 1, 5, 10; median rank counts from 1."""

    r1: float
    r5: float
    r10: float
    median_rank: float

    @classmethod
    def of(cls, ranks: "Int64[np.ndarray, ' N']") -> "Recalls":
        """The recalls of ranks that count from 0."""
        r1, r5, r10 = (float(100 * np.mean(ranks < k)) for k in (1, 5, 10))
        return cls(r1, r5, r10, median_rank=float(np.floor(np.median(ranks)) + 1))

    def as_dict(self) -> dict[str, float]:
        """The recalls by name, to be written as JSON."""
        return asdict(self)


class Shortlists(NamedTuple):
    """Stage one's scores of all pairs, and the number of candidates that it passes on per question."""

    scores: Float[Tensor, "Q K"]
    length: int


def text_to_image_ranks(
    scores: Float[Tensor, "Q K"], image_of: Int64[Tensor, " Q"], shortlists: Shortlists | None = None
) -> np.ndarray:
    """Rank of each sentence's own picture among all pictures; last if the shortlist lacks it."""
    pictures = torch.arange(scores.shape[1], device=scores.device)
    return _ranks(scores, lambda rows: image_of[rows, None] == pictures, shortlists)


def image_to_text_ranks(
    scores: Float[Tensor, "Q K"], image_of: Int64[Tensor, " Q"], shortlists: Shortlists | None = None
) -> np.ndarray:
    """Rank of the best of each picture's own sentences among all sentences of other pictures; last if the shortlist
    lacks them all."""
    pictures = torch.arange(scores.shape[1], device=scores.device)
    transposed = shortlists and Shortlists(shortlists.scores.T, shortlists.length)
    return _ranks(scores.T, lambda rows: pictures[rows, None] == image_of, transposed)


def _ranks(
    scores: Float[Tensor, "N M"], own_of: Callable[[slice], Bool[Tensor, "B M"]], shortlists: Shortlists | None
) -> np.ndarray:
    """The rank from 0 of the best of each row's own candidates, ties against it; in blocks of rows to save memory."""
    ranks = np.empty(len(scores), dtype=np.int64)
    for start in range(0, len(scores), QUESTIONS_AT_ONCE):
        rows = slice(start, start + QUESTIONS_AT_ONCE)
        own = own_of(rows)
        block = scores[rows].nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
        if shortlists:
            block = mask_outside_shortlist(block, shortlists.scores[rows], shortlists.length, own)
        best = block.masked_fill(~own, -torch.inf).amax(1, keepdim=True)
        ranks[rows] = ((block >= best) & ~own).sum(1).cpu().numpy()
    return ranks


def mask_outside_shortlist(
    scores: Float[Tensor, "N M"],
    stage_one: Float[Tensor, "N M"],
    length: int,
    own: Bool[Tensor, "N M"] | None = None,
) -> Float[Tensor, "N M"]:
    """Scores, -inf outside each row's `length` best by stage one, which never include NaN.

    Among equal scores, a row's `own` candidates come last.
    """
    best = stage_one.nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
    if own is not None:
        best = torch.where(own, best.nextafter(best.new_tensor(-torch.inf)), best)
    chosen = best.topk(min(length, best.shape[1]), dim=1).indices
    kept = torch.full_like(scores, -torch.inf)
    return kept.scatter(1, chosen, scores.gather(1, chosen)).masked_fill_(stage_one.isnan(), -torch.inf)


def stage_one_ranks_of_best(
    scores: Float[Tensor, "N M"], stage_one: Float[Tensor, "N M"], best: int = 10
) -> "Int64[np.ndarray, 'N B']":
    """Rank by stage one, from 0, of each row's `best` highest scores; a shortlist of k keeps those below k.

    A tie counts against the model, and NaN is stage one's worst score.
    """
    best = min(best, scores.shape[1])
    ranks = np.empty((len(scores), best), dtype=np.int64)
    for start in range(0, len(scores), QUESTIONS_AT_ONCE):
        rows = slice(start, start + QUESTIONS_AT_ONCE)
        block = stage_one[rows].nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
        chosen = scores[rows].nan_to_num(nan=-torch.inf).topk(best, dim=1).indices
        for column, values in enumerate(block.gather(1, chosen).T):
            ranks[rows, column] = (block >= values[:, None]).sum(1).cpu().numpy() - 1
    return ranks


def rsum(text_to_image: Recalls, image_to_text: Recalls) -> float:
    """Sum of the six recalls."""
    return sum(r.r1 + r.r5 + r.r10 for r in (text_to_image, image_to_text))


def subtract_numbers(report: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The difference of every number in two reports of one form."""
    return {
        name: subtract_numbers(value, other[name]) if isinstance(value, dict) else value - other[name]
        for name, value in report.items()
    }
