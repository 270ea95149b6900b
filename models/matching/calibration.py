"""Scores as probabilities that people can read.

The logarithm of the odds that a candidate with score s is a right one is taken to be

    slope s + intercept + lead (s - best other score) - crowd log((N - m) / m)

where N candidates are searched and m of them are expected to be right. Were a score's meaning the same for every
question, and candidates independent of each other, Bayes would have lead 0 and crowd 1. But a question may be one that
everything scores high with, and pictures that look alike score alike: a score that no other comes near is worth more,
and a gallery of twice the size not twice as confusing. One fit of the four holds for galleries of every size.

What it is the probability of: that this candidate is a right one, given that the gallery holds m of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from models.matching.hubness import Hubs

Numbers: TypeAlias = npt.NDArray[np.float64]
Numeric: TypeAlias = float | np.floating[Any] | Sequence[float] | npt.NDArray[Any]

RIDGE = 1e-3  # answers that a threshold tells apart without fault would otherwise have an endless slope
BINS = 10
ENDLESS = 1e100  # no score is worth more


class Uncalibratable(ValueError):
    """Scores that say nothing of what is right; the message says what was found."""


class Answers(NamedTuple):
    """What was shown for many questions, an element an answer."""

    scores: Numbers
    leads: Numbers
    surprises: Numbers
    right: npt.NDArray[np.bool_]

    @classmethod
    def joined(cls, parts: Sequence["Answers"]) -> "Answers":
        """Those of several galleries as one."""
        return cls(*(np.concatenate(column) for column in zip(*parts, strict=True)))


@dataclass(frozen=True)
class Evidence:
    """The four numbers of the formula above. In one search a higher score is always the likelier."""

    slope: float
    intercept: float
    lead: float = 0.0
    crowd: float = 1.0

    def __post_init__(self) -> None:
        if not (np.isfinite([self.slope, self.intercept, self.lead, self.crowd]).all() and self.slope > 0):
            raise Uncalibratable(f"a higher score must mean a likelier answer, and the slope is {self.slope:g}")
        if self.lead < 0 or self.crowd < 0:
            raise Uncalibratable(f"neither lead nor crowd can be below 0: {self.lead:g}, {self.crowd:g}")

    def probability(self, scores: Numeric, leads: Numeric = 0.0, surprise: Numeric = 0.0) -> Numbers:
        """Of each score, `leads` above the best other. A score that is no number is never right."""
        exact, ahead = (
            np.clip(np.nan_to_num(np.asarray(values, np.float64), nan=-ENDLESS), -ENDLESS, ENDLESS)
            for values in (scores, leads)
        )
        return logistic(self.slope * exact + self.intercept + self.lead * ahead - self.crowd * np.asarray(surprise))

    def rescaled(self, factor: float, shift: float) -> "Evidence":
        """The same of scores that are `factor` times as high, plus `shift`."""
        slope = self.slope / factor
        return Evidence(slope, self.intercept - slope * shift, self.lead / factor, self.crowd)

    @classmethod
    def mean(cls, parts: Sequence["Evidence"]) -> "Evidence":
        """The mean of each number."""
        return cls(*(float(np.mean(column)) for column in zip(*(asdict(part).values() for part in parts), strict=True)))


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
                hubs=None if hubs is None else Hubs(**hubs),
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


def leads(scores: npt.NDArray[np.floating[Any]]) -> Numbers:
    """How far each score of a search, along the last axis, is above the best of the others; 0 where there is none."""
    if scores.shape[-1] < 2:
        return np.zeros(scores.shape)
    exact = np.clip(np.nan_to_num(scores.astype(np.float64), nan=-ENDLESS), -ENDLESS, ENDLESS)
    second, best = np.moveaxis(np.partition(exact, (-2, -1))[..., -2:], -1, 0)
    first = exact == best[..., None]
    ahead: Numbers = exact - np.where(first, second[..., None], best[..., None])
    return ahead


def fit(shown: Answers) -> Evidence:
    """Logistic regression of what is right on scores, leads and surprises.

    Without the leads where a higher score or a longer lead would else count against an answer. Uncalibratable where
    higher scores are not more often right.
    """
    if shown.right.all() or not shown.right.any():
        raise Uncalibratable(f"of {len(shown.right)} answers {'none' if not shown.right.any() else 'all'} are right")
    slope, lead, crowd, intercept = _regressed([shown.scores, shown.leads, shown.surprises], shown)
    if slope <= 0 or lead < 0 or crowd < 0:
        slope, intercept = _regressed([shown.scores], shown)
        lead, crowd = 0.0, 1.0
    return Evidence(slope, intercept, lead, crowd)


def _regressed(columns: Sequence[Numbers], shown: Answers) -> list[float]:
    """Weight of each column and the intercept, by Newton's method; surprises not among them count 1.

    Of equally good weights those nearest to 0, and to 1 for surprises.
    """
    spreads = np.array([column.std() or 1.0 for column in columns])
    centres = np.array([column.mean() for column in columns])
    design = np.stack([*((np.stack(columns, 1) - centres) / spreads).T, np.ones(len(shown.right))], 1)
    weights = np.zeros(design.shape[1])
    loss = _loss(weights, design, shown)
    for _ in range(100):
        predicted = logistic(design @ weights - shown.surprises)
        gradient = design.T @ (predicted - shown.right) + RIDGE * weights
        curvature = (design * (predicted * (1 - predicted))[:, None]).T @ design + RIDGE * np.eye(len(weights))
        step, size = np.linalg.solve(curvature, gradient), 1.0
        while (tried := _loss(weights - size * step, design, shown)) > loss and size > 1e-9:
            size /= 2
        weights, before, loss = weights - size * step, loss, min(tried, loss)
        if before - loss < 1e-12 * abs(loss):
            break
    slopes = weights[:-1] / spreads
    found = [float(slope) for slope in slopes]
    if len(found) == 3:
        found[2] = 1 - found[2]
    return [*found, float(weights[-1] - slopes @ centres)]


def _loss(weights: Numbers, design: Numbers, shown: Answers) -> float:
    logits = design @ weights - shown.surprises
    return float((np.logaddexp(0, logits) - shown.right * logits).sum() + RIDGE * (weights @ weights) / 2)


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
