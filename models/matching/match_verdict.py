"""The test of whether anything in a gallery answers a question at all, by the first answer.

The log odds that the gallery holds an answer are linear in the first answer's score, its margin over the second and the
gallery's prior log odds, as in `log_odds.py`. Two thresholds give three verdicts, because most first answers in a large
gallery are ambiguous: another picture may fit a sentence as well as its own. If the right answer comes first for a
share r of the questions, no test by the first answer can have an area under the ROC curve above (1 + r) / 2: for all
other questions, the first answer is the same with and without the right one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from models.matching.log_odds import LogOddsModel, Numeric, ScoredAnswers, fit_log_odds

WRONG_VERDICTS = 0.1  # share of the questions with (without) an answer that get the wrong verdict, in the fitted data


@dataclass(frozen=True)
class MatchTest:
    """The probability that there is an answer, and the thresholds of the verdict.

    Below `absent_below` nothing matches, from `present_from` on something does; between the two there is no verdict.
    """

    log_odds: LogOddsModel
    absent_below: float
    present_from: float

    def __post_init__(self) -> None:
        if not 0 <= self.absent_below <= self.present_from <= 1:
            raise ValueError(
                f"thresholds are probabilities in ascending order, not {self.absent_below:g} and {self.present_from:g}"
            )

    def probability(self, score: Numeric, margin: Numeric = 0.0, prior: Numeric = 0.0) -> npt.NDArray[np.float64]:
        """The probability that a gallery holds an answer, by its first answer's score and margin, and its prior."""
        return self.log_odds.probability(score, margin, prior)

    def verdict(self, score: float, margin: float = 0.0, prior: float = 0.0) -> bool | None:
        """True if something matches, False if nothing does, None if that is undecided."""
        probability = float(self.probability(score, margin, prior))
        if probability >= self.present_from:
            return True
        return False if probability < self.absent_below else None

    def shares_of_verdicts(
        self, probability: npt.NDArray[np.float64], present: npt.NDArray[np.bool_]
    ) -> dict[str, dict[str, float]]:
        """The shares of both verdicts among galleries with an answer (`present`) and without one; for JSON."""
        return {
            name: {
                "matched": float((probability[chosen] >= self.present_from).mean()),
                "not_matched": float((probability[chosen] < self.absent_below).mean()),
            }
            for name, chosen in (("present", present), ("absent", ~present))
        }

    def of_rescaled_scores(self, scale: float, shift: float) -> "MatchTest":
        """The test that gives `scale` x score + `shift` the same verdict as this one gives the score."""
        return MatchTest(self.log_odds.of_rescaled_scores(scale, shift), self.absent_below, self.present_from)

    @classmethod
    def with_thresholds(cls, log_odds: LogOddsModel, answers: ScoredAnswers) -> "MatchTest":
        """The test by these log odds with thresholds fitted to first answers; `correct` says in which of them the
        gallery held an answer.

        Each threshold is the quantile at which a share WRONG_VERDICTS of the questions gets the wrong verdict; if they
        cross, both are their mean.
        """
        probability = log_odds.probability(answers.scores, answers.margins, answers.prior_log_odds)
        absent_below = float(np.quantile(probability[answers.correct], WRONG_VERDICTS))
        present_from = float(np.quantile(probability[~answers.correct], 1 - WRONG_VERDICTS))
        if absent_below > present_from:
            absent_below = present_from = (absent_below + present_from) / 2
        return cls(log_odds, absent_below, present_from)

    @classmethod
    def mean(cls, tests: Sequence["MatchTest"]) -> "MatchTest":
        """The mean of each number."""
        return cls(
            LogOddsModel.mean([test.log_odds for test in tests]),
            float(np.mean([test.absent_below for test in tests])),
            float(np.mean([test.present_from for test in tests])),
        )

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "MatchTest":
        """The test that `as_dict` wrote. Raises TypeError, KeyError or ValueError for anything else."""
        return cls(LogOddsModel(**stored["log_odds"]), stored["absent_below"], stored["present_from"])

    def as_dict(self) -> dict[str, Any]:
        """The test's fields by name, for JSON."""
        return asdict(self)


def fit_match_test(answers: ScoredAnswers) -> MatchTest:
    """The test fitted to first answers; `correct` says in which of them the gallery held an answer. Raises
    Uncalibratable if higher scores are no evidence of an answer."""
    return MatchTest.with_thresholds(fit_log_odds(answers), answers)


def area_under_roc(values: npt.NDArray[np.float64], positive: npt.NDArray[np.bool_]) -> float:
    """The share of pairs of a positive and a negative in which the positive has the higher value; ties count half."""
    order = np.argsort(values, kind="stable")
    distinct, places = np.unique(values[order], return_inverse=True)
    ends = np.cumsum(np.bincount(places, minlength=len(distinct)))
    starts = np.concatenate([[0], ends[:-1]])
    ranks = np.empty(len(values))
    ranks[order] = ((starts + ends + 1) / 2)[places]  # the mean rank of equal values, from 1
    num_positive = int(positive.sum())
    above = float(ranks[positive].sum()) - num_positive * (num_positive + 1) / 2
    return above / (num_positive * (len(values) - num_positive))
