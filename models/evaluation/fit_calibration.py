"""Fitting a matcher's calibration on captioned pictures: fitted on some of them, assessed on the others."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from models.batches import tiles
from models.datasets.captioned_features import CaptionedFeatures
from models.evaluation.evaluate import (
    Progress,
    ranks_by_direction,
    recalls_of_ranks,
    recalls_with_intervals,
    score_all_pairs,
)
from models.evaluation.score_matrix import ENCODING_BATCH, encode_in_batches
from models.matching.calibration import (
    Calibration,
    LogOddsModel,
    ScoredAnswers,
    brier_skill_score,
    expected_calibration_error,
    fit_log_odds,
    margins,
    prior_log_odds,
    reliability_table,
)
from models.matching.hubness import HubnessConfig, SentenceBank, Similarity, spherical_k_means
from models.matching.matcher import SingleMatcher
from models.rerankers.attention import masked_mean

UNFITTED = LogOddsModel(1.0, 0.0)  # where only the hubness correction of a calibration matters
ANSWERS_SHOWN = 10  # of each question: as many as somebody looks at
SMALLEST_GALLERY = 50  # pictures, to fit on
STAGE_ONE_WEIGHTS = tuple(n / 20 for n in range(21))  # of the mean cosine, from which the best is taken
SMALL_GALLERY = 100  # pictures in the galleries to assess on, beside all pictures at once

Direction = Literal["text", "image"]  # pictures for a sentence, or sentences for a picture


@dataclass(frozen=True, kw_only=True)
class CalibrationPlan:
    """How to calibrate: the hubness correction, and the share of pictures kept for assessment.

    `share` is the strength of the reranker's correction; 0 corrects nothing. With `stage_one` stage one is corrected
    too, as strongly as ranks best. `bank_size` is the number of typical sentences.
    """

    share: float = 0.4
    similarity: Similarity = "embeddings"
    neighbours: int = 2
    bank_size: int = 160
    stage_one: bool = False
    held_out: float = 0.5
    seed: int = 0

    def hubness(self, scores: Float[Tensor, "Q K"], stage_one: Float[Tensor, "Q K"]) -> HubnessConfig:
        """The correction's weights, given the scores of all pairs by the reranker and by stage one.

        By embeddings a share of 1 weighs a cosine so that it varies as much as the scores do over all pairs. By scores
        it weighs them 1, and the scores of sentences with single regions, which differ more, half as much.
        """
        if self.similarity == "scores":
            weights = self.share, self.share / 2
        else:
            spreads = [float(values[values.isfinite()].std()) for values in (scores, stage_one)]
            weights = (self.share * spreads[0] / spreads[1],) * 2
        return HubnessConfig(
            image_weight=weights[0], text_weight=weights[1], neighbours=self.neighbours, similarity=self.similarity
        )

    @property
    def needs_bank(self) -> bool:
        """Whether anything is corrected."""
        return self.share > 0 or self.stage_one

    def split(self, pictures: int) -> tuple[Int64[Tensor, " F"], Int64[Tensor, " H"]]:
        """Pictures to fit on and pictures to assess on; ValueError where either are too few."""
        order = torch.from_numpy(np.random.default_rng(self.seed).permutation(pictures))
        kept = round(pictures * self.held_out)
        if min(kept, pictures - kept) < SMALLEST_GALLERY:
            raise ValueError(
                f"{pictures - kept} pictures to fit on and {kept} to judge by: both must be {SMALLEST_GALLERY} at least"
            )
        return order[kept:].sort().values, order[:kept].sort().values


class ScoredPairs(NamedTuple):
    """Scores of all sentences with all pictures, and the picture that each sentence belongs to."""

    scores: Float[Tensor, "Q K"]
    image_of: Int64[Tensor, " Q"]

    def among(self, gallery: Int64[Tensor, " G"]) -> "ScoredPairs":
        """The pairs of some pictures and their own sentences, the pictures numbered anew."""
        own = self.image_of[:, None] == gallery
        sentences = own.any(1)
        return ScoredPairs(self.scores[sentences][:, gallery], own[sentences].int().argmax(1))

    def num_questions(self, direction: Direction) -> int:
        """How many questions are asked: all sentences, or all pictures."""
        return self.scores.shape[0 if direction == "text" else 1]


def best_answers(pairs: ScoredPairs, direction: Direction) -> ScoredAnswers:
    """The best-scored answers to every question in one gallery."""
    pictures = torch.arange(pairs.scores.shape[1])
    num_right = 1.0 if direction == "text" else len(pairs.image_of) / len(pictures)
    if direction == "text":
        scores, picture_of_question, picture_of_candidate = pairs.scores, pairs.image_of, pictures
    else:
        scores, picture_of_question, picture_of_candidate = pairs.scores.T, pictures, pairs.image_of
    best = scores.topk(min(ANSWERS_SHOWN, scores.shape[1]), dim=1)
    values = best.values.double().numpy()
    correct = (picture_of_candidate[best.indices] == picture_of_question[:, None]).flatten().numpy()
    prior = np.full(len(correct), prior_log_odds(scores.shape[1], num_right))
    return ScoredAnswers(values.flatten(), margins(values).flatten(), prior, correct)


def deal_galleries(pictures: Int64[Tensor, " N"], size: int, seed: int) -> list[Int64[Tensor, " G"]]:
    """Pictures dealt at random into as many whole galleries of `size` as there are."""
    order = torch.from_numpy(np.random.default_rng([seed, size]).permutation(len(pictures)))
    return [pictures[order[start : start + size]] for start in range(0, len(pictures) - size + 1, size)]


def answers_in_galleries(
    pairs: ScoredPairs, pictures: Int64[Tensor, " N"], size: int, direction: Direction, seed: int
) -> ScoredAnswers:
    """The best answers in all galleries of one size."""
    galleries = deal_galleries(pictures, size, seed)
    return ScoredAnswers.concatenate([best_answers(pairs.among(gallery), direction) for gallery in galleries])


def gallery_sizes(largest: int) -> list[int]:
    """Sizes of galleries to fit on: doubling from the smallest, and all pictures at once."""
    doubling = [SMALLEST_GALLERY * 2**n for n in range(32) if SMALLEST_GALLERY * 2**n < largest]
    return [*doubling, largest]


def fit_direction(pairs: ScoredPairs, pictures: Int64[Tensor, " N"], direction: Direction, seed: int) -> LogOddsModel:
    """The log odds that fit the answers in galleries of many sizes best."""
    sizes = gallery_sizes(len(pictures))
    answers = [answers_in_galleries(pairs, pictures, size, direction, seed) for size in sizes]
    return fit_log_odds(ScoredAnswers.concatenate(answers))


def assess_direction(
    model: LogOddsModel, pairs: ScoredPairs, pictures: Int64[Tensor, " N"], direction: Direction, seed: int
) -> dict[str, Any]:
    """Size of the gallery -> assessment of the best answers to every question, and of the `first` alone, for JSON."""
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


def first_answers(answers: ScoredAnswers, num_questions: int) -> ScoredAnswers:
    """The best answer alone of each question of one gallery."""
    every = slice(None, None, len(answers.correct) // num_questions)
    return ScoredAnswers(
        answers.scores[every], answers.margins[every], answers.prior_log_odds[every], answers.correct[every]
    )


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


@torch.no_grad()
def typical_sentences(matcher: SingleMatcher, sentences: Sequence[str], count: int, seed: int) -> SentenceBank:
    """A bank of `count` typical sentences; ValueError where there are fewer sentences."""
    batches = [texts for _, texts, _ in encode_in_batches(matcher, list(sentences), ENCODING_BATCH)]
    means = torch.cat([masked_mean(texts.vectors, texts.mask) for texts in batches])
    return SentenceBank.quantise(spherical_k_means(means, count, seed))


@torch.no_grad()
def hubness_offsets(matcher: SingleMatcher, data: CaptionedFeatures) -> Float[Tensor, "Q K"]:
    """The number that a hubness correction takes off the score of every caption with every picture."""
    batches = [matcher.encode_regions(data.regions(rows))[0].offset for rows in tiles(len(data), ENCODING_BATCH)]
    of_pictures = torch.cat([offset for offset in batches if offset is not None])
    captions, _ = data.sentences()
    of_captions = torch.empty(len(captions))
    for chosen, texts, _ in encode_in_batches(matcher, captions, ENCODING_BATCH):
        of_captions[chosen] = texts.offset.cpu()
    return of_pictures.cpu() + of_captions[:, None]


def with_hubness(matcher: SingleMatcher, hubness: HubnessConfig, bank: SentenceBank) -> SingleMatcher:
    """The matcher with a hubness correction and no fitted probabilities yet."""
    return matcher.with_calibration(Calibration(text=UNFITTED, image=UNFITTED, hubness=hubness), bank)


def fit_stage_one(
    matcher: SingleMatcher, data: CaptionedFeatures, cosines: ScoredPairs, own: Int64[Tensor, " F"]
) -> tuple[HubnessConfig, ScoredPairs]:
    """The correction of `matcher` with the weight for stage one that gives the highest rsum on the pictures `own`, and
    stage one's scores with it. Of equal weights the smallest."""
    assert matcher.hubness is not None
    config = matcher.hubness.config
    unit_weight = with_hubness(matcher, replace(config, stage_one_weight=1.0), matcher.hubness.bank)
    batches = [unit_weight.encode_regions(data.regions(rows))[1][:, -1] for rows in tiles(len(data), ENCODING_BATCH)]
    minus_offsets = torch.cat(batches).cpu()

    def corrected(weight: float) -> ScoredPairs:
        return ScoredPairs(cosines.scores + weight * minus_offsets, cosines.image_of)

    def rsum_with(weight: float) -> float:
        return float(recalls_of_ranks(ranks_by_direction(*corrected(weight).among(own)))["rsum"])

    best = max(STAGE_ONE_WEIGHTS, key=rsum_with)
    return replace(config, stage_one_weight=best), corrected(best)


def calibrate(
    matcher: SingleMatcher,
    data: CaptionedFeatures,
    sentences: Sequence[str],
    plan: CalibrationPlan,
    progress: Progress | None = None,
) -> tuple[Calibration, SentenceBank | None, dict[str, Any]]:
    """The calibration of a matcher without one, the bank of its hubness correction, and a report for JSON.

    `sentences` are those of which the bank is made. ValueError where there is too little to go by, Uncalibratable
    where the scores do not tell right from wrong.
    """
    own, others = plan.split(len(data))
    scores, stage_one = (each.cpu() for each in score_all_pairs(matcher, data, progress=progress))
    uncorrected = corrected = ScoredPairs(scores, data.sentences()[1])
    cosines = corrected_cosines = ScoredPairs(stage_one, uncorrected.image_of)
    hubness, bank = None, None
    if plan.needs_bank:
        bank = typical_sentences(matcher, sentences, plan.bank_size, plan.seed)
        hubness = plan.hubness(scores, stage_one)
        if plan.stage_one:
            hubness, corrected_cosines = fit_stage_one(with_hubness(matcher, hubness, bank), data, cosines, own)
        correcting = with_hubness(matcher, hubness, bank)
        corrected = ScoredPairs(scores - hubness_offsets(correcting, data), uncorrected.image_of)
    calibration = Calibration(
        text=fit_direction(corrected, own, "text", plan.seed),
        image=fit_direction(corrected, own, "image", plan.seed),
        hubness=hubness,
        fitted_on={"pictures": len(own), "extractor": data.extractor_digest, "seed": plan.seed},
    )
    stored = calibration.as_dict()
    report = {
        "model": matcher.name,
        "pictures": {"fitted": len(own), "held_out": len(others)},
        "hubs": stored["hubs"] and {**stored["hubs"], "bank": plan.bank_size},
        "rsum": {
            half: {
                "without_hubs_corrected": recalls_with_intervals(*uncorrected.among(chosen))["rsum"],
                "as_served": recalls_with_intervals(*corrected.among(chosen))["rsum"],
            }
            for half, chosen in (("fitted", own), ("held_out", others))
        },
        "rsum_of_stage_one": {
            half: {
                "without_hubs_corrected": recalls_with_intervals(*cosines.among(chosen))["rsum"],
                "as_served": recalls_with_intervals(*corrected_cosines.among(chosen))["rsum"],
            }
            for half, chosen in (("fitted", own), ("held_out", others))
        },
        "text": stored["text"],
        "image": stored["image"],
        "held_out": {
            "text": assess_direction(calibration.text, corrected, others, "text", plan.seed),
            "image": assess_direction(calibration.image, corrected, others, "image", plan.seed),
        },
    }
    return calibration, bank, report
