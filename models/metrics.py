"""Recall@k, median rank and rsum by the field's protocol (VSE++, SCAN), with ties and NaN decided.

A rank counts how many candidates stand before the right one: 0 is best. A tie counts against the model
(every equal candidate stands before), so a constant score earns nothing; NaN counts as the worst score.
"""

from dataclasses import asdict, dataclass

import numpy as np
from jaxtyping import Float, Int64
from torch import Tensor


@dataclass(frozen=True)
class Recalls:
    """Percentages of queries whose right answer is among the first 1, 5, 10; median rank counts from 1."""

    r1: float
    r5: float
    r10: float
    median_rank: float

    @classmethod
    def of(cls, ranks: "Int64[np.ndarray, ' N']") -> "Recalls":
        """Recalls of ranks that count from 0."""
        r1, r5, r10 = (float(100 * np.mean(ranks < k)) for k in (1, 5, 10))
        return cls(r1, r5, r10, median_rank=float(np.floor(np.median(ranks)) + 1))

    def as_dict(self) -> dict[str, float]:
        """For JSON."""
        return asdict(self)


def text_to_image_ranks(scores: Float[Tensor, "Q K"], image_of: Int64[Tensor, " Q"]) -> np.ndarray:
    """Rank of each sentence's own picture among all pictures."""
    scores = scores.nan_to_num(nan=-float("inf"))
    own = scores.gather(1, image_of[:, None])
    return ((scores >= own).sum(1) - 1).cpu().numpy()


def image_to_text_ranks(scores: Float[Tensor, "Q K"], image_of: Int64[Tensor, " Q"]) -> np.ndarray:
    """Rank of the best of each picture's own sentences among all sentences of other pictures."""
    scores = scores.nan_to_num(nan=-float("inf"))
    own = image_of[:, None] == scores.new_tensor(range(scores.shape[1])).long()
    best = scores.masked_fill(~own, -float("inf")).amax(0)
    return ((scores >= best) & ~own).sum(0).cpu().numpy()


def rsum(text_to_image: Recalls, image_to_text: Recalls) -> float:
    """Sum of the six recalls."""
    return sum(r.r1 + r.r5 + r.r10 for r in (text_to_image, image_to_text))
