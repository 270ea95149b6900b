"""The log odds that an answer with a given score is right.

The log odds that a candidate with score s is right are modelled as

    slope s + intercept + margin_weight (s - best other score) + gallery_weight log(m / (N - m))

where N candidates are searched and m of them are expected to be right. If scores were comparable between questions and
candidates independent, Bayes would give margin_weight 0 and gallery_weight 1. But everything scores high with some
questions, and similar pictures have similar scores: a score far above all others means more, and a gallery of twice the
size is not twice as confusing. The four numbers are fitted in galleries of several sizes at once; for larger galleries
they are extrapolated.

The result is the probability that this candidate is a right one, given that the gallery holds m of them.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Numbers: TypeAlias = npt.NDArray[np.float64]
Numeric: TypeAlias = float | np.floating[Any] | Sequence[float] | npt.NDArray[Any]

WEIGHT_PENALTY = 1e-3  # perfectly separable answers would otherwise give an infinite slope
LARGEST_SCORE = 1e100  # of either sign, to which larger and infinite scores are clipped


class Uncalibratable(ValueError):
    """Scores that do not separate right from wrong answers; the message says why."""


class ScoredAnswers(NamedTuple):
    """The answers to many questions, one element per answer."""

    scores: Numbers
    margins: Numbers
    prior_log_odds: Numbers
    correct: npt.NDArray[np.bool_]

    @classmethod
    def concatenate(cls, parts: Sequence["ScoredAnswers"]) -> "ScoredAnswers":
        """The answers of several galleries as one."""
        return cls(*(np.concatenate(column) for column in zip(*parts, strict=True)))


@dataclass(frozen=True)
class LogOddsModel:
    """The four numbers of the formula above. Within a search, a higher score is always more probable."""

    slope: float
    intercept: float
    margin_weight: float = 0.0
    gallery_weight: float = 1.0

    def __post_init__(self) -> None:
        numbers = self.slope, self.intercept, self.margin_weight, self.gallery_weight
        if not (np.isfinite(numbers).all() and self.slope > 0):
            raise Uncalibratable(
                f"a higher score makes no answer likelier (slope is {self.slope:g}): train it longer, or see that"
                " features and captions are of the same pictures"
            )
        if self.margin_weight < 0 or self.gallery_weight < 0:
            raise Uncalibratable(
                f"the weights of margin and gallery cannot be below 0: {self.margin_weight:g}, {self.gallery_weight:g}"
            )

    def probability(self, scores: Numeric, margins: Numeric = 0.0, prior: Numeric = 0.0) -> Numbers:
        """The probability that each answer is right, by its score, margin and the gallery's `prior_log_odds`.

        An answer whose score is NaN is never right.
        """
        finite_scores, finite_margins = (_finite(values) for values in (scores, margins))
        return logistic(
            self.slope * finite_scores
            + self.intercept
            + self.margin_weight * finite_margins
            + self.gallery_weight * np.asarray(prior)
        )

    def of_rescaled_scores(self, scale: float, shift: float) -> "LogOddsModel":
        """The model that gives `scale` x score + `shift` the same probability as this one gives the score."""
        slope = self.slope / scale
        return LogOddsModel(slope, self.intercept - slope * shift, self.margin_weight / scale, self.gallery_weight)

    @classmethod
    def mean(cls, models: Sequence["LogOddsModel"]) -> "LogOddsModel":
        """The mean of each number."""
        columns = zip(*(asdict(model).values() for model in models), strict=True)
        return cls(*(float(np.mean(column)) for column in columns))


def logistic(logits: Numeric) -> Numbers:
    """1 / (1 + exp(-x)), without overflow."""
    return np.asarray(0.5 + 0.5 * np.tanh(np.asarray(logits) / 2))


def prior_log_odds(num_candidates: int, num_right: float) -> float:
    """log(m / (N - m)): the log odds that a candidate is right, before scoring.

    Never above 0: a small gallery is no reason to assume that its only picture is right.
    """
    return -float(np.log(max(num_candidates / num_right - 1, 1.0)))


def margins(scores: npt.NDArray[np.floating[Any]]) -> Numbers:
    """Every score along the last axis minus the best of the other scores; 0 if there is no other."""
    if scores.shape[-1] < 2:
        return np.zeros(scores.shape)
    finite = _finite(scores)
    second, best = np.moveaxis(np.partition(finite, (-2, -1))[..., -2:], -1, 0)
    is_best = finite == best[..., None]
    differences: Numbers = finite - np.where(is_best, second[..., None], best[..., None])
    return differences


def _finite(scores: Numeric) -> Numbers:
    # fmax prefers numbers to NaN.
    return np.asarray(np.fmin(np.fmax(np.asarray(scores, np.float64), -LARGEST_SCORE), LARGEST_SCORE))


def fit_log_odds(answers: ScoredAnswers) -> LogOddsModel:
    """Logistic regression of which answers are correct, on scores, margins and prior log odds.

    Margins are left out if otherwise a higher score or a larger margin would count against an answer. Raises
    Uncalibratable if higher scores are not right more often.
    """
    correct = answers.correct
    if correct.all() or not correct.any():
        raise Uncalibratable(f"of {len(correct)} answers {'none' if not correct.any() else 'all'} are right")
    columns = [answers.scores, answers.margins, answers.prior_log_odds]
    slope, margin_weight, beyond_prior, intercept = _regress(columns, answers)
    gallery_weight = 1 + beyond_prior
    if slope <= 0 or margin_weight < 0 or gallery_weight < 0:
        slope, intercept = _regress([answers.scores], answers)
        margin_weight, gallery_weight = 0.0, 1.0
    return LogOddsModel(slope, intercept, margin_weight, gallery_weight)


def _regress(columns: Sequence[Numbers], answers: ScoredAnswers) -> list[float]:
    """Weight of each column, and the intercept, by Newton's method; the prior log odds are added with weight 1.

    A small penalty selects the smallest of equally good weights.
    """
    spreads = np.array([column.std() or 1.0 for column in columns])
    means = np.array([column.mean() for column in columns])
    design = np.stack([*((np.stack(columns, 1) - means) / spreads).T, np.ones(len(answers.correct))], 1)
    weights = np.zeros(design.shape[1])
    loss = _loss(weights, design, answers)
    for _ in range(100):
        predicted = logistic(design @ weights + answers.prior_log_odds)
        gradient = design.T @ (predicted - answers.correct) + WEIGHT_PENALTY * weights
        curvature = (design * (predicted * (1 - predicted))[:, None]).T @ design + WEIGHT_PENALTY * np.eye(len(weights))
        step, size = np.linalg.solve(curvature, gradient), 1.0
        while (next_loss := _loss(weights - size * step, design, answers)) > loss and size > 1e-9:
            size /= 2
        weights, previous, loss = weights - size * step, loss, min(next_loss, loss)
        if previous - loss < 1e-12 * abs(loss):
            break
    slopes = weights[:-1] / spreads
    return [*(float(slope) for slope in slopes), float(weights[-1] - slopes @ means)]


def _loss(weights: Numbers, design: Numbers, answers: ScoredAnswers) -> float:
    logits = design @ weights + answers.prior_log_odds
    return float((np.logaddexp(0, logits) - answers.correct * logits).sum() + WEIGHT_PENALTY * (weights @ weights) / 2)
