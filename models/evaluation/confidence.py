"""Confidence intervals of recalls: percentile intervals of the bootstrap over pictures.

A picture's captions describe one scene and are not independent, so pictures are resampled, each with all its captions
(Efron & Tibshirani, 1993). The gallery stays the same: ranks are not computed again. If recalls are means over folds,
which are equal runs of pictures, each fold is resampled separately.
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
    """Direction -> recall -> lower and upper bound in percent; for both directions together also of their sum, rsum.

    `ranks` count from 0; `picture_of` says which picture a question is about. All directions ask about one set of
    pictures.
    """
    return _intervals(
        {
            direction: resampled_recalls(direction_ranks, picture_of[direction], folds)
            for direction, direction_ranks in ranks.items()
        }
    )


def paired_intervals(
    ranks: Mapping[str, "Int64[np.ndarray, ' N']"],
    others: Mapping[str, "Int64[np.ndarray, ' N']"],
    picture_of: Mapping[str, "Int64[np.ndarray, ' N']"],
    folds: int = 1,
) -> dict[str, Any]:
    """Intervals of the difference of the recalls of `ranks` and `others`, in the form of `bootstrap_intervals`.

    Both rank the answers to the same questions, and each resample's difference is on the same resampled pictures. A
    hard picture is hard for both, so differences vary less than recalls.
    """
    return _intervals(
        {
            direction: resampled_recalls(direction_ranks, picture_of[direction], folds)
            - resampled_recalls(others[direction], picture_of[direction], folds)
            for direction, direction_ranks in ranks.items()
        }
    )


def _intervals(recalls: Mapping[str, "Float[np.ndarray, 'resamples 3']"]) -> dict[str, Any]:
    intervals: dict[str, Any] = {
        direction: {name: percentile_interval(resampled[:, n]) for n, name in enumerate(RECALL_CUTOFFS)}
        for direction, resampled in recalls.items()
    }
    if len(recalls) > 1:
        intervals["rsum"] = percentile_interval(sum(resampled.sum(1) for resampled in recalls.values()))
    return intervals


def interval_settings() -> dict[str, Any]:
    """The settings of the intervals, for reports."""
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
    """Interval in percent of the ratio of two sums over pictures, such as hits and questions if a picture has several.

    Resamples without any question have no ratio and are ignored.
    """
    counts = resample_counts(len(numerators))
    asked = counts @ denominators
    return percentile_interval(100 * (counts @ numerators)[asked > 0] / asked[asked > 0])


def resample_counts(num: int, fold: int = 0) -> "Float[np.ndarray, 'resamples num']":
    """The count of each of `num` pictures in each resample. All reports on that many pictures have the same resamples;
    the folds of one report have different ones."""
    return _cached_counts(num, fold).astype(float)


@lru_cache(maxsize=8)
def _cached_counts(num: int, fold: int) -> "Shaped[np.ndarray, 'resamples num']":
    """The counts as the smallest integers that hold them, one byte each: 25 MB for 25 000 pictures."""
    counts = np.random.default_rng(SEED + fold).multinomial(num, np.full(num, 1 / num), NUM_RESAMPLES)
    return counts.astype(np.min_scalar_type(counts.max()))


def percentile_interval(values: "Float[np.ndarray, ' resamples']") -> list[float]:
    """The bounds of the middle PERCENT."""
    outside = (1 - PERCENT / 100) / 2
    return [float(end) for end in np.quantile(values, (outside, 1 - outside))]
