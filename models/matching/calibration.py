"""Calibrations of a model's scores, which are stored with its weights, and measures of probabilities.

`log_odds.py` has the log odds that an answer is right, `match_verdict.py` the test of whether there is a right one.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from models.matching.hubness import HubnessConfig
from models.matching.log_odds import LogOddsModel, Numbers
from models.matching.match_verdict import MatchTest

T = TypeVar("T")

NUM_BINS = 10

# Fields -> keys in calibration.json, where these differ.
LOG_ODDS_KEYS = {"margin_weight": "lead", "gallery_weight": "crowd"}
HUBNESS_KEYS = {
    "image_weight": "pictures",
    "text_weight": "sentences",
    "neighbours": "best",
    "similarity": "by",
    "stage_one_weight": "stage_one",
    "stage_one_text_weight": "stage_one_sentences",
}
CALIBRATION_KEYS = {"hubness": "hubs", "fitted_on": "fitted"}
MATCH_TESTS = ("text_match", "image_match", "short_match")


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The calibration of scores of pictures for a sentence (`text`) and of sentences for a picture (`image`).

    `hubness` is the correction of the scores, which also contain `cosine_weight` times stage one's corrected cosine.
    For a question of up to `short_question` words, `short_summand` replaces that cosine and the picture's correction.
    `text_match` and `image_match`, if fitted, test whether there is an answer at all; `short_match` tests whether a
    picture shows what a short question asks for, by the score without the question's offset. `fitted_on` describes the
    data of the fit. Raises ValueError for a weight or number of words below 0, and for infinite numbers.
    """

    text: LogOddsModel
    image: LogOddsModel
    hubness: HubnessConfig | None = None
    fitted_on: Mapping[str, Any] = field(default_factory=dict)
    cosine_weight: float = 0.0
    short_question: int = 0
    short_summand: float = 0.0
    text_match: MatchTest | None = None
    image_match: MatchTest | None = None
    short_match: MatchTest | None = None

    def __post_init__(self) -> None:
        if not (np.isfinite(self.cosine_weight) and self.cosine_weight >= 0):
            raise ValueError(
                f"the weight of stage one's cosine must be a number of 0 or more, not {self.cosine_weight:g}"
            )
        if self.short_question < 0 or not np.isfinite(self.short_summand):
            raise ValueError(
                "a short question has 0 words or more and a finite summand,"
                f" not {self.short_question} and {self.short_summand:g}"
            )

    def as_dict(self) -> dict[str, Any]:
        """The content of calibration.json."""
        stored = _with_keys(asdict(self), CALIBRATION_KEYS)
        stored |= {side: _with_keys(stored[side], LOG_ODDS_KEYS) for side in ("text", "image")}
        for name in ("stage_one_weight", "stage_one_text_weight"):
            if stored["hubs"] is not None and not stored["hubs"][name]:
                del stored["hubs"][name]  # older files have none, and are rewritten unchanged
        if not self.cosine_weight:
            del stored["cosine_weight"]  # likewise
        if not self.short_question:
            del stored["short_question"], stored["short_summand"]
        for name in MATCH_TESTS:
            if stored[name] is None:
                del stored[name]
        return stored | {"hubs": stored["hubs"] and _with_keys(stored["hubs"], HUBNESS_KEYS)}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "Calibration":
        """A calibration from the content of its file. Raises ValueError for anything else."""
        try:
            hubness = stored["hubs"]
            return cls(
                text=_from_keys(LogOddsModel, stored["text"], LOG_ODDS_KEYS),
                image=_from_keys(LogOddsModel, stored["image"], LOG_ODDS_KEYS),
                hubness=None if hubness is None else _from_keys(HubnessConfig, hubness, HUBNESS_KEYS),
                fitted_on=stored.get("fitted", {}),
                cosine_weight=stored.get("cosine_weight", 0.0),
                short_question=stored.get("short_question", 0),
                short_summand=stored.get("short_summand", 0.0),
                **{name: MatchTest.from_dict(stored[name]) for name in MATCH_TESTS if name in stored},
            )
        except (TypeError, KeyError) as fault:
            raise ValueError(f"this is no calibration: {fault}") from fault


def _with_keys(values: Mapping[str, Any], keys: Mapping[str, str]) -> dict[str, Any]:
    return {keys.get(name, name): value for name, value in values.items()}


def _from_keys(kind: type[T], stored: Mapping[str, Any], keys: Mapping[str, str]) -> T:
    return kind(**_with_keys(stored, {key: name for name, key in keys.items()}))


def reliability_table(predicted: Numbers, correct: npt.NDArray[np.bool_]) -> list[dict[str, float]]:
    """A row for each bin of equal width with predictions: their mean and the observed share of right answers."""
    bins = np.minimum((predicted * NUM_BINS).astype(int), NUM_BINS - 1)
    rows = []
    for number in range(NUM_BINS):
        inside = bins == number
        if inside.any():
            mean, observed = float(predicted[inside].mean()), float(correct[inside].mean())
            rows.append(
                {"from": number / NUM_BINS, "predicted": mean, "observed": observed, "count": int(inside.sum())}
            )
    return rows


def expected_calibration_error(predicted: Numbers, correct: npt.NDArray[np.bool_]) -> float:
    """Mean distance of predicted and observed share over all bins, weighted by their counts."""
    rows = reliability_table(predicted, correct)
    return sum(row["count"] * abs(row["predicted"] - row["observed"]) for row in rows) / max(len(predicted), 1)


def brier_skill_score(predicted: Numbers, correct: npt.NDArray[np.bool_]) -> float:
    """1 - the mean squared error divided by that of the best constant prediction, the share of right answers.

    1 is perfect, 0 as good as the constant (Brier 1950; Murphy 1973). 0 if all answers are right, or none.
    """
    variance = float(correct.mean() * (1 - correct.mean()))
    return 1 - float(((predicted - correct) ** 2).mean()) / variance if variance else 0.0
