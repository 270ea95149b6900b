"""Whether anything of a gallery answers a question at all, told by the first answer.

The log odds that the gallery holds an answer are linear in the first answer's score, its margin over the second and the
gallery's prior log odds, as those of `log_odds.py` are. Two thresholds make three verdicts of them, because most first
answers of a large gallery say little either way: another picture may fit a sentence as well as its own. Where the right
answer comes first in a share r of the questions, nothing that goes by the first answer can have an area under the ROC
curve above (1 + r) / 2: in all other questions the first answer is the same with and without the right one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from models.matching.log_odds import LogOddsModel, Numeric, ScoredAnswers, fit_log_odds

TOLD_WRONGLY = 0.1  # share of the questions with (without) an answer that are told there is none (one), where fitted


@dataclass(frozen=True)
class MatchTest:
    """The probability that there is an answer, and what is said of it.

    Below `absent_below` nothing matches, from `present_from` on something does, between the two it is not said.
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
        """True where something matches, False where nothing does, None where that cannot be told."""
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
        """The test that says of `scale` x score + `shift` what this one says of the score."""
        return MatchTest(self.log_odds.of_rescaled_scores(scale, shift), self.absent_below, self.present_from)

    @classmethod
    def with_thresholds(cls, log_odds: LogOddsModel, answers: ScoredAnswers) -> "MatchTest":
        """The test by these log odds whose thresholds fit first answers; `correct` says in which of them the gallery
        held an answer.

        Each threshold is the quantile at which a share `TOLD_WRONGLY` of the questions gets the wrong verdict; where
        these cross, it is the mean of both.
        """
        probability = log_odds.probability(answers.scores, answers.margins, answers.prior_log_odds)
        absent_below = float(np.quantile(probability[answers.correct], TOLD_WRONGLY))
        present_from = float(np.quantile(probability[~answers.correct], 1 - TOLD_WRONGLY))
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
        """The test that `as_dict` wrote; TypeError, KeyError or ValueError where it is something else."""
        return cls(LogOddsModel(**stored["log_odds"]), stored["absent_below"], stored["present_from"])

    def as_dict(self) -> dict[str, Any]:
        """The test by the names of its fields, to be written as JSON."""
        return asdict(self)


def fit_match_test(answers: ScoredAnswers) -> MatchTest:
    """The test fitted to first answers; `correct` says in which of them the gallery held an answer. Uncalibratable
    where higher scores do not speak for an answer."""
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
