"""Reports on the quality of calibrations on pictures that they were not fitted on."""

from collections.abc import Mapping, Sequence
from typing import Any

from jaxtyping import Int64
from torch import Tensor

from models.evaluation.ranks import Ranks
from models.evaluation.scored_pairs import (
    Direction,
    ScoredPairs,
    best_answers,
    deal_galleries,
    first_answers,
    match_answers_in_galleries,
)
from models.matching.calibration import Calibration, brier_skill_score, expected_calibration_error, reliability_table
from models.matching.hubness_banks import HubnessBanks
from models.matching.log_odds import LogOddsModel, ScoredAnswers
from models.matching.match_verdict import MatchTest, area_under_roc

SMALL_GALLERY = 100  # pictures in the galleries to assess on, in addition to all pictures at once


def assess(calibration: Calibration, pairs: ScoredPairs, pictures: Int64[Tensor, " H"], seed: int) -> dict[str, Any]:
    """The fitted log odds and their quality on other pictures, for JSON."""
    stored = calibration.as_dict()
    held_out, matched = {}, {}
    directions: tuple[tuple[Direction, LogOddsModel, MatchTest | None], ...] = (
        ("text", calibration.text, calibration.text_match),
        ("image", calibration.image, calibration.image_match),
    )
    for direction, model, test in directions:
        held_out[direction] = assess_direction(model, pairs, pictures, direction, seed)
        matched[direction] = test and assess_match(test, pairs, pictures, direction, seed)
    return {"text": stored["text"], "image": stored["image"], "held_out": held_out, "matched": matched}


def assess_direction(
    model: LogOddsModel, pairs: ScoredPairs, pictures: Int64[Tensor, " N"], direction: Direction, seed: int
) -> dict[str, Any]:
    """Gallery size -> assessment of the best answers to every question, and of only the `first`, for JSON."""
    report = {}
    for size in sorted({len(pictures), min(SMALL_GALLERY, len(pictures))}):
        galleries = [pairs.among(gallery) for gallery in deal_galleries(pictures, size, seed)]
        answers = [best_answers(gallery, direction) for gallery in galleries]
        first = [
            first_answers(found, gallery.num_questions(direction))
            for found, gallery in zip(answers, galleries, strict=True)
        ]
        report[str(size)] = {**assess_answers(model, answers), "first": assess_answers(model, first)}
    return report


def assess_answers(model: LogOddsModel, parts: Sequence[ScoredAnswers]) -> dict[str, Any]:
    """Calibration error, Brier skill score and reliability of a model's probabilities, for JSON."""
    answers = ScoredAnswers.concatenate(parts)
    predicted = model.probability(answers.scores, answers.margins, answers.prior_log_odds)
    return {
        "error": expected_calibration_error(predicted, answers.correct),
        "brier_skill": brier_skill_score(predicted, answers.correct),
        "answers": len(predicted),
        "reliability": reliability_table(predicted, answers.correct),
    }


def assess_match(
    test: MatchTest, pairs: ScoredPairs, pictures: Int64[Tensor, " N"], direction: Direction, seed: int
) -> dict[str, Any]:
    """Gallery size -> quality of the test that distinguishes questions with an answer from those without, for JSON.

    `auc` is the area under the ROC curve; the others are shares of verdicts among questions with (`present`) and
    without (`absent`) an answer.
    """
    report = {}
    for size in sorted({len(pictures), min(SMALL_GALLERY, len(pictures))}):
        answers = match_answers_in_galleries(pairs, pictures, size, direction, seed)
        probability = test.probability(answers.scores, answers.margins, answers.prior_log_odds)
        shares = test.shares_of_verdicts(probability, answers.correct)
        report[str(size)] = {"auc": area_under_roc(probability, answers.correct), **shares}
    return report


def rsums(
    uncorrected: ScoredPairs, corrected: ScoredPairs, halves: Mapping[str, Int64[Tensor, " N"]]
) -> dict[str, dict[str, float]]:
    """Half of the pictures -> rsum without and with the hubness correction; for JSON."""
    return {
        half: {
            "without_hubs_corrected": rsum_of(uncorrected.among(chosen)),
            "as_served": rsum_of(corrected.among(chosen)),
        }
        for half, chosen in halves.items()
    }


def rsum_of(pairs: ScoredPairs) -> float:
    """rsum over all pairs."""
    return float(Ranks.of(pairs).recalls()["rsum"])


def bank_sizes(banks: HubnessBanks | None) -> dict[str, int]:
    """The numbers of typical sentences and of typical pictures; for JSON."""
    if banks is None:
        return {}
    of_pictures = {} if banks.pictures is None else {"picture_bank": len(banks.pictures)}
    return {"bank": len(banks.sentences), **of_pictures}
