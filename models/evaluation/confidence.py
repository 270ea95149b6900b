"""How far recalls would move with other pictures: percentile intervals of the bootstrap over pictures.

A picture's captions are about one scene and hang together, so that pictures are drawn anew, each with all its captions
(Efron & Tibshirani, 1993). What they are searched among stays the same: ranks are not computed again.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Float, Int64

RESAMPLES, PERCENT, SEED = 1000, 95, 0
AMONG = {"r1": 1, "r5": 5, "r10": 10}


def intervals(
    ranks: Mapping[str, "Int64[np.ndarray, ' N']"], picture_of: Mapping[str, "Int64[np.ndarray, ' N']"]
) -> dict[str, Any]:
    """Direction -> recall -> its lower and upper end, in percent; with both directions also of their sum, rsum.

    `ranks` count from 0 and `picture_of` says which picture a question is about; every direction asks about the same.
    """
    drawn = {way: resampled(found, picture_of[way]) for way, found in ranks.items()}
    told: dict[str, Any] = {
        way: {name: ends(recalls[:, n]) for n, name in enumerate(AMONG)} for way, recalls in drawn.items()
    }
    if len(drawn) > 1:
        told["rsum"] = ends(sum(recalls.sum(1) for recalls in drawn.values()))
    return told


def described() -> dict[str, Any]:
    """What the intervals of a report are, for whoever reads it."""
    return {"percent": PERCENT, "resamples": RESAMPLES, "of": "pictures", "seed": SEED}


def resampled(
    ranks: "Int64[np.ndarray, ' N']", picture_of: "Int64[np.ndarray, ' N']"
) -> "Float[np.ndarray, 'resamples 3']":
    """Recalls at 1, 5, 10 of every resample."""
    _, unit = np.unique(picture_of, return_inverse=True)
    asked = np.bincount(unit)
    right = np.stack([np.bincount(unit, ranks < k) for k in AMONG.values()], 1)
    times = drawings(len(asked))
    return 100 * (times @ right) / (times @ asked)[:, None]


@cache
def drawings(num: int) -> "Float[np.ndarray, 'resamples num']":
    """How often each of `num` pictures is in each resample: the same for all that a report compares."""
    return np.random.default_rng(SEED).multinomial(num, np.full(num, 1 / num), RESAMPLES).astype(float)


def ends(values: "Float[np.ndarray, ' resamples']") -> list[float]:
    """The lower and upper end of the middle PERCENT."""
    outside = (1 - PERCENT / 100) / 2
    return [float(end) for end in np.quantile(values, (outside, 1 - outside))]
