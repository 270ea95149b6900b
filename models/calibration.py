"""Scores as probabilities that people can read.

The evidence of a score s is the logarithm of how much more often right candidates score s than wrong ones do, and a
straight line in s. Where a search has N candidates of which m are expected to be right, each as likely as the next,
Bayes gives the probability 1 / (1 + exp(-(a s + c - log((N - m) / m)))). So one line holds for galleries of every size.
What it is the probability of: that this candidate is a right one, given that the gallery holds m of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from models.hubs import Hubs

Numbers: TypeAlias = npt.NDArray[np.float64]
Numeric: TypeAlias = float | np.floating[Any] | Sequence[float] | npt.NDArray[Any]

RIDGE = 1e-3  # answers that a threshold tells apart without fault would otherwise have an endless slope
BINS = 10
ENDLESS = 1e100  # no score is worth more


class Uncalibratable(ValueError):
    """Scores that say nothing of what is right; the message says what was found."""


@dataclass(frozen=True)
class Evidence:
    """The line a s + c."""

    slope: float
    intercept: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.slope) and np.isfinite(self.intercept) and self.slope > 0):
            raise Uncalibratable(f"a higher score must mean a likelier answer, and the slope is {self.slope:g}")

    def probability(self, scores: Numeric, surprise: Numeric = 0.0) -> Numbers:
        """Of each score, in a search with that `surprise`. A score that is no number is never right."""
        exact = np.clip(np.nan_to_num(np.asarray(scores, np.float64), nan=-ENDLESS), -ENDLESS, ENDLESS)
        return logistic(self.slope * exact + self.intercept - surprise)


AS_IT_IS = Evidence(1.0, 0.0)


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """What a model's scores mean: of pictures for a sentence (`text`) and of sentences for a picture (`image`).

    `hubs` is the correction with which the scores were made; `fitted` says on what, for people.
    """

    text: Evidence
    image: Evidence
    hubs: Hubs | None = None
    fitted: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @classmethod
    def of_dict(cls, stored: Mapping[str, Any]) -> "Calibration":
        """What `as_dict` wrote; ValueError where it is something else."""
        try:
            hubs = stored["hubs"]
            return cls(
                text=Evidence(**stored["text"]),
                image=Evidence(**stored["image"]),
                hubs=None if hubs is None else Hubs(**{**hubs, "bank": tuple(hubs["bank"])}),
                fitted=stored.get("fitted", {}),
            )
        except (TypeError, KeyError) as fault:
            raise ValueError(f"this is no calibration: {fault}") from fault


def logistic(logits: Numeric) -> Numbers:
    """1 / (1 + exp(-x)), without overflow."""
    return np.asarray(0.5 + 0.5 * np.tanh(np.asarray(logits) / 2))


def surprise(num_candidates: int, num_right: float) -> float:
    """log((N - m) / m): minus the log odds that a candidate is right before it is scored.

    Never below 0: that a gallery is small is no reason to take its only picture for the one described.
    """
    return float(np.log(max(num_candidates / num_right - 1, 1.0)))


def fit(scores: Numbers, surprises: Numbers, right: npt.NDArray[np.bool_]) -> Evidence:
    """Logistic regression of `right` on scores, the line less each answer's surprise, by Newton's method.

    Uncalibratable where higher scores are not more often right.
    """
    if right.all() or not right.any():
        raise Uncalibratable(f"of {len(right)} answers {'all' if len(right) and right.all() else 'none'} are right")
    centre, spread = scores.mean(), scores.std() or 1.0
    design = np.stack([(scores - centre) / spread, np.ones_like(scores)], 1)
    line = np.zeros(2)
    loss = _loss(line, design, surprises, right)
    for _ in range(100):
        predicted = logistic(design @ line - surprises)
        gradient = design.T @ (predicted - right) + RIDGE * line
        curvature = (design * (predicted * (1 - predicted))[:, None]).T @ design + RIDGE * np.eye(2)
        step = np.linalg.solve(curvature, gradient)
        size = 1.0
        while (tried := _loss(line - size * step, design, surprises, right)) > loss and size > 1e-9:
            size /= 2
        line, before, loss = line - size * step, loss, min(tried, loss)
        if before - loss < 1e-12 * abs(loss):
            break
    slope = float(line[0] / spread)
    return Evidence(slope, float(line[1] - slope * centre))


def _loss(line: Numbers, design: Numbers, surprises: Numbers, right: npt.NDArray[np.bool_]) -> float:
    logits = design @ line - surprises
    return float((np.logaddexp(0, logits) - right * logits).sum() + RIDGE * (line @ line) / 2)


def reliability(predicted: Numbers, right: npt.NDArray[np.bool_], bins: int = BINS) -> list[dict[str, float]]:
    """A row for each bin of equal width with something in it: what was predicted there, and what was observed."""
    places = np.minimum((predicted * bins).astype(int), bins - 1)
    rows = []
    for place in range(bins):
        inside = places == place
        if inside.any():
            mean, observed = float(predicted[inside].mean()), float(right[inside].mean())
            rows.append({"from": place / bins, "predicted": mean, "observed": observed, "count": int(inside.sum())})
    return rows


def calibration_error(predicted: Numbers, right: npt.NDArray[np.bool_], bins: int = BINS) -> float:
    """Expected calibration error: how far predicted and observed lie apart, a bin weighing as much as it holds."""
    rows = reliability(predicted, right, bins)
    return sum(row["count"] * abs(row["predicted"] - row["observed"]) for row in rows) / max(len(predicted), 1)
