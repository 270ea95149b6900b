"""Fitting of a matcher's calibration on some captioned pictures, and its assessment on the others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from models.batches import MARKS
from models.datasets.captioned_features import CaptionedFeatures
from models.evaluation.calibration_report import assess, bank_sizes, rsum_of, rsums
from models.evaluation.evaluate import Progress, score_all_pairs
from models.evaluation.fit_hubness import (
    HubnessPlan,
    fit_hubness,
    ratio_of_spreads,
    typical_pictures,
    typical_sentences,
)
from models.evaluation.scored_pairs import (
    Direction,
    ScoredPairs,
    answers_in_galleries,
    match_answers_in_galleries,
)
from models.evaluation.short_match import ShortAnswers, answers_to_words, assess_short_match, fit_short_match
from models.matching.calibration import Calibration
from models.matching.hubness_banks import HubnessBanks
from models.matching.log_odds import LogOddsModel, ScoredAnswers, Uncalibratable, fit_log_odds
from models.matching.match_verdict import MatchTest, fit_match_test
from models.matching.matcher import Matcher
from models.matching.single_matcher import SingleMatcher

SMALLEST_GALLERY = 50  # pictures, to fit on
# Tried shares of stage one in the score; at 1 both spread equally, at 10 the sum is hardly more than stage one.
FUSED_SHARES = (*(n / 10 for n in range(31)), 4.0, 5.0, 6.0, 8.0, 10.0)


@dataclass(frozen=True, kw_only=True)
class CalibrationPlan:
    """Choices of a calibration: the hubness correction, and the share of pictures kept for assessment.

    With `fuse_stage_one` stage one's cosine is added to the score, with the weight that ranks best. Questions of up to
    `short_question` words are scored without it and without the correction of pictures.
    """

    hubness: HubnessPlan = field(default_factory=HubnessPlan)
    fuse_stage_one: bool = False
    short_question: int = 0
    held_out: float = 0.5
    seed: int = 0

    def split(self, pictures: int) -> tuple[Int64[Tensor, " F"], Int64[Tensor, " H"]]:
        """Pictures to fit on and pictures to assess on. Raises ValueError if either are too few."""
        order = torch.from_numpy(np.random.default_rng(self.seed).permutation(pictures))
        kept = round(pictures * self.held_out)
        if min(kept, pictures - kept) < SMALLEST_GALLERY:
            raise ValueError(
                f"{pictures - kept} pictures to fit on and {kept} to judge by: both must be {SMALLEST_GALLERY} at least"
                "; take more pictures, or another share to judge by (--held-out)"
            )
        return order[kept:].sort().values, order[:kept].sort().values


def gallery_sizes(largest: int) -> list[int]:
    """Sizes of galleries to fit on: doubling from the smallest, and all pictures at once."""
    doubling = [SMALLEST_GALLERY * 2**n for n in range(32) if SMALLEST_GALLERY * 2**n < largest]
    return [*doubling, largest]


def fit_direction(pairs: ScoredPairs, pictures: Int64[Tensor, " N"], direction: Direction, seed: int) -> LogOddsModel:
    """The log odds that best fit the answers in galleries of many sizes."""
    sizes = gallery_sizes(len(pictures))
    answers = [answers_in_galleries(pairs, pictures, size, direction, seed) for size in sizes]
    return fit_log_odds(ScoredAnswers.concatenate(answers))


def fit_match(pairs: ScoredPairs, pictures: Int64[Tensor, " N"], direction: Direction, seed: int) -> MatchTest | None:
    """The test of whether anything matches that best fits galleries of many sizes; None if first answers with and
    without a right one cannot be distinguished."""
    sizes = gallery_sizes(len(pictures))
    answers = [match_answers_in_galleries(pairs, pictures, size, direction, seed) for size in sizes]
    try:
        return fit_match_test(ScoredAnswers.concatenate(answers))
    except Uncalibratable:
        return None


def make_banks(
    matcher: SingleMatcher, sentences: Sequence[str], pictures: CaptionedFeatures | None, plan: CalibrationPlan
) -> HubnessBanks:
    """The banks of a hubness correction. Raises ValueError for too few sentences or pictures."""
    hubness, seed = plan.hubness, plan.seed
    return HubnessBanks(
        typical_sentences(matcher, sentences, hubness, seed),
        None if pictures is None else typical_pictures(matcher, pictures, hubness, seed),
    )


class FittedScores(NamedTuple):
    """Scores of all pairs as they are served, and their calibration, fitted on some of the pictures."""

    calibration: Calibration
    pairs: ScoredPairs
    words: ShortAnswers | None
    """Answers to words of the captions, if short questions have separate scores."""
    halves: Mapping[str, Int64[Tensor, " N"]]
    """The pictures "fitted" on, and those "held_out"."""
    seed: int

    def report(self, matcher: Matcher, parts: Mapping[str, Any]) -> dict[str, Any]:
        """The report, for JSON: model, pictures, further `parts`, and the assessment of the calibration."""
        return {
            "model": matcher.name,
            "pictures": {half: len(chosen) for half, chosen in self.halves.items()},
            **parts,
            **assess(self.calibration, self.pairs, self.halves["held_out"], self.seed),
            "short_match": self._assess_short(),
        }

    def _assess_short(self) -> dict[str, Any] | None:
        test, words = self.calibration.short_match, self.words
        if test is None or words is None or not (held_out := words.among(self.halves["held_out"])).questions:
            return None
        return assess_short_match(test, held_out)

    def rsums(self, pairs: ScoredPairs) -> dict[str, float]:
        """Half of the pictures -> rsum of other scores of the pairs; for JSON."""
        return {half: rsum_of(pairs.among(chosen)) for half, chosen in self.halves.items()}


def fit_served(
    whole: ScoredPairs,
    by_sentence: ScoredPairs,
    short: Bool[Tensor, " Q"],
    data: CaptionedFeatures,
    plan: CalibrationPlan,
    compared: Bool[Tensor, " Q"] | None = None,
    words: ShortAnswers | None = None,
) -> FittedScores:
    """The `whole` scores, with those `by_sentence` for `short` questions, and their calibration.

    `compared` are the captions for which `by_sentence` has separate scores; None for all. `words` are answers to words
    of the captions, if these are short questions.
    """
    fitted, held_out = plan.split(len(data))
    pairs, summand = with_short_questions(whole, by_sentence, short, fitted, compared)
    calibration = replace(
        fit_scores(pairs, fitted, data.extractor_digest, plan.seed),
        short_question=plan.short_question,
        short_summand=summand if plan.short_question else 0.0,
        short_match=None if words is None else fit_short_match(words.among(fitted)),
    )
    return FittedScores(calibration, pairs, words, {"fitted": fitted, "held_out": held_out}, plan.seed)


def calibrate(
    matcher: SingleMatcher,
    data: CaptionedFeatures,
    sentences: Sequence[str],
    plan: CalibrationPlan,
    pictures: CaptionedFeatures | None = None,
    progress: Progress | None = None,
) -> tuple[Calibration, HubnessBanks | None, dict[str, Any]]:
    """The calibration of a matcher without one, the banks of its hubness correction, and a report for JSON.

    The banks are made of `sentences` and `pictures`. Raises ValueError for too few pictures or sentences, and
    Uncalibratable if the scores do not separate right from wrong answers.
    """
    fitted, _ = plan.split(len(data))
    banks = make_banks(matcher, sentences, pictures, plan) if plan.hubness.needs_bank else None
    scores, stage_one = (pairs.cpu() for pairs in score_all_pairs(matcher, data, progress=progress))
    hubs = None
    if banks is not None:
        hubs = fit_hubness(matcher, data, scores, stage_one, fitted, plan.hubness, banks)
    alone, corrected_stage_one = (hubs.scores, hubs.stage_one) if hubs else (scores, stage_one)
    by_sentence = hubs.by_sentence if hubs else scores
    cosine_weight = best_cosine_weight(alone, corrected_stage_one, fitted) if plan.fuse_stage_one else 0.0
    whole = fuse(alone, corrected_stage_one, cosine_weight)
    short = short_captions(matcher, data, plan.short_question)
    words = answers_to_words(matcher, data, progress) if plan.short_question else None
    served = fit_served(whole, by_sentence, short, data, plan, words=words)
    calibration = replace(served.calibration, hubness=hubs.config if hubs else None, cosine_weight=cosine_weight)
    without_stage_one, _ = with_short_questions(alone, by_sentence, short, fitted)
    stored = calibration.as_dict()
    parts = {
        "hubs": stored["hubs"] and {**stored["hubs"], **bank_sizes(banks)},
        "cosine_weight": cosine_weight,
        "short_question": plan.short_question,
        "rsum": rsums(scores, served.pairs, served.halves),
        "rsum_without_stage_one": served.rsums(without_stage_one),
        "rsum_of_stage_one": rsums(stage_one, corrected_stage_one, served.halves),
    }
    return calibration, banks, served.report(matcher, parts)


def calibrate_ensemble(
    matcher: Matcher, data: CaptionedFeatures, plan: CalibrationPlan, progress: Progress | None = None
) -> tuple[Calibration, dict[str, Any]]:
    """The calibration of an ensemble's mean scores, and a report for JSON.

    The members keep theirs, with their hubness corrections; of the plan, only the split and the seed are used. Raises
    Uncalibratable if the scores do not separate right from wrong answers.
    """
    plan = replace(plan, short_question=matcher.short_question)
    plan.split(len(data))  # raises for too few pictures before all pairs are scored
    scores, stage_one = (pairs.cpu() for pairs in score_all_pairs(matcher, data, progress=progress))
    whole = ScoredPairs(scores.of("image"), scores.image_of)
    short = short_captions(matcher, data, plan.short_question)
    words = answers_to_words(matcher, data, progress) if plan.short_question else None
    served = fit_served(whole, scores, short, data, plan, compared=short, words=words)
    parts = {
        "short_question": plan.short_question,
        "rsum": served.rsums(served.pairs),
        "rsum_of_stage_one": served.rsums(stage_one),
    }
    return served.calibration, served.report(matcher, parts)


def short_captions(matcher: Matcher, data: CaptionedFeatures, most_words: int) -> Bool[Tensor, " Q"]:
    """True for captions of at most `most_words` words."""
    return torch.tensor([len(matcher.words(caption)) - MARKS <= most_words for caption in data.sentences()[0]])


def fit_scores(pairs: ScoredPairs, pictures: Int64[Tensor, " F"], extractor: str, seed: int) -> Calibration:
    """The calibration of scores on these pictures, in both directions, with the tests of whether anything matches."""
    return Calibration(
        text=fit_direction(pairs, pictures, "text", seed),
        image=fit_direction(pairs, pictures, "image", seed),
        fitted_on={"pictures": len(pictures), "extractor": extractor, "seed": seed},
        text_match=fit_match(pairs, pictures, "text", seed),
        image_match=fit_match(pairs, pictures, "image", seed),
    )


def with_short_questions(
    whole: ScoredPairs,
    by_sentence: ScoredPairs,
    short: Bool[Tensor, " Q"],
    fitted: Int64[Tensor, " F"],
    compared: Bool[Tensor, " Q"] | None = None,
) -> tuple[ScoredPairs, float]:
    """The `whole` scores with those of `short` questions replaced by `by_sentence` plus a constant, and that constant.

    The constant makes the best scores of questions of all lengths comparable. It is the mean difference between the
    best `whole` and the best `by_sentence` score among the pictures `fitted`, over the questions that `compared` marks
    (all for None; 0 if there are none).
    """
    best, best_by_sentence = (pairs.among(fitted).scores.amax(1) for pairs in (whole, by_sentence))
    differences = best - best_by_sentence
    if compared is not None:
        differences = differences[compared[torch.isin(whole.image_of, fitted)]]
    summand = float(differences.mean()) if len(differences) else 0.0
    scores = torch.where(short[:, None], by_sentence.scores + summand, whole.scores)
    return ScoredPairs(scores, whole.image_of, whole.scores), summand


def fuse(scores: ScoredPairs, stage_one: ScoredPairs, cosine_weight: float) -> ScoredPairs:
    """The reranker's scores plus stage one's times the weight."""
    if not cosine_weight:
        return scores
    return ScoredPairs(scores.scores + cosine_weight * stage_one.scores, scores.image_of)


def best_cosine_weight(scores: ScoredPairs, stage_one: ScoredPairs, fitted: Int64[Tensor, " F"]) -> float:
    """The weight of stage one's scores in the sum with the highest rsum on the pictures `fitted`; the smallest of equal
    ones."""
    chosen, cosines = scores.among(fitted), stage_one.among(fitted)
    ratio = ratio_of_spreads(chosen.scores, cosines.scores)
    return max((ratio * share for share in FUSED_SHARES), key=lambda weight: rsum_of(fuse(chosen, cosines, weight)))
