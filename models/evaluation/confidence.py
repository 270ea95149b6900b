"""Confidence intervals of recalls: percentile intervals of the bootstrap over pictures.

A picture's captions are about one scene and not independent, so that pictures are resampled, each with all its captions
(Efron & Tibshirani, 1993). The gallery stays the same: ranks are not computed again. Where recalls are means over
folds, equal runs of pictures, each fold's pictures are resampled apart.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float, Int64, Shaped

NUM_RESAMPLES, PERCENT, SEED = 1000, 95, 0
RECALL_CUTOFFS = {"r1": 1, "r5": 5, "r10": 10}


def bootstrap_intervals(
    ranks: Mapping[str, "Int64[np.ndarray, ' N']"], picture_of: Mapping[str, "Int64[np.ndarray, ' N']"], folds: int = 1
) -> dict[str, Any]:
    """Direction -> recall -> its lower and upper end, in percent; with both directions also of their sum, rsum.

    `ranks` count from 0; `picture_of` says which picture a question is about. All directions ask about one set of
    pictures.
    """
    return _intervals(
        {direction: resampled_recalls(own, picture_of[direction], folds) for direction, own in ranks.items()}
    )


def paired_intervals(
    ranks: Mapping[str, "Int64[np.ndarray, ' N']"],
    others: Mapping[str, "Int64[np.ndarray, ' N']"],
    picture_of: Mapping[str, "Int64[np.ndarray, ' N']"],
    folds: int = 1,
) -> dict[str, Any]:
    """Intervals, as of `bootstrap_intervals`, of how much higher the recalls of `ranks` are than those of `others`.

    Both rank the answers to the same questions, and a resample's difference is that on the same resampled pictures:
    what makes a picture hard makes it hard for both, so that differences vary less than recalls do.
    """
    return _intervals(
        {
            direction: resampled_recalls(own, picture_of[direction], folds)
            - resampled_recalls(others[direction], picture_of[direction], folds)
            for direction, own in ranks.items()
        }
    )


def _intervals(recalls: Mapping[str, "Float[np.ndarray, 'resamples 3']"]) -> dict[str, Any]:
    intervals: dict[str, Any] = {
        direction: {name: percentile_interval(own[:, n]) for n, name in enumerate(RECALL_CUTOFFS)}
        for direction, own in recalls.items()
    }
    if len(recalls) > 1:
        intervals["rsum"] = percentile_interval(sum(own.sum(1) for own in recalls.values()))
    return intervals


def interval_settings() -> dict[str, Any]:
    """The settings of the intervals, for a report's readers."""
    return {"percent": PERCENT, "resamples": NUM_RESAMPLES, "of": "pictures", "seed": SEED}


def resampled_recalls(
    ranks: "Int64[np.ndarray, ' N']", picture_of: "Int64[np.ndarray, ' N']", folds: int = 1
) -> "Float[np.ndarray, 'resamples 3']":
    """Recalls at 1, 5, 10 of every resample; of several folds, their mean."""
    _, picture = np.unique(picture_of, return_inverse=True)
    num_questions = np.bincount(picture)
    num_right = np.stack([np.bincount(picture, ranks < k) for k in RECALL_CUTOFFS.values()], 1)
    each = zip(np.split(num_right, folds), np.split(num_questions, folds), strict=True)
    recalls = []
    for fold, (right, questions) in enumerate(each):
        counts = resample_counts(len(questions), fold)
        recalls.append(100 * (counts @ right) / (counts @ questions)[:, None])
    mean: Float[np.ndarray, "resamples 3"] = np.mean(recalls, 0)
    return mean


def interval_of_ratio(
    numerators: "Float[np.ndarray, ' pictures']", denominators: "Float[np.ndarray, ' pictures']"
) -> list[float]:
    """Interval, in percent, of a sum over pictures divided by another: hits by questions, where a picture has several.

    A resample without any question has no ratio and does not count.
    """
    counts = resample_counts(len(numerators))
    asked = counts @ denominators
    return percentile_interval(100 * (counts @ numerators)[asked > 0] / asked[asked > 0])


def resample_counts(num: int, fold: int = 0) -> "Float[np.ndarray, 'resamples num']":
    """The count of each of `num` pictures in each resample; every report on as many pictures has the same resamples,
    and each fold of one report others."""
    return _kept_counts(num, fold).astype(float)


@lru_cache(maxsize=8)
def _kept_counts(num: int, fold: int) -> "Shaped[np.ndarray, 'resamples num']":
    """These counts in the smallest integers that hold them, a byte each: of 25 000 pictures they take 25 MB."""
    counts = np.random.default_rng(SEED + fold).multinomial(num, np.full(num, 1 / num), NUM_RESAMPLES)
    return counts.astype(np.min_scalar_type(counts.max()))


def percentile_interval(values: "Float[np.ndarray, ' resamples']") -> list[float]:
    """The lower and upper end of the middle PERCENT."""
    outside = (1 - PERCENT / 100) / 2
    return [float(end) for end in np.quantile(values, (outside, 1 - outside))]
