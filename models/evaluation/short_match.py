"""Probabilities that a picture shows what a short question asks for, fitted to words of captions.

Many pictures may answer a question of a word or two, so its probability is not that of being the one picture described,
but that of showing what the word names, whatever else the gallery holds. A picture shows it if at least SAYING of its
captions (or its only one) have the word, and does not if none has; otherwise it is unknown.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from models.datasets.captioned_features import CaptionedFeatures
from models.evaluation.evaluate import Progress
from models.evaluation.question_scores import question_scores
from models.matching.calibration import brier_skill_score, expected_calibration_error, reliability_table
from models.matching.log_odds import ScoredAnswers, Uncalibratable, fit_log_odds
from models.matching.match_verdict import MatchTest, area_under_roc
from models.matching.matcher import Matcher
from models.text.content_words import is_content_word
from models.text.reader import END, START

SAYING = 2  # captions of a picture with a word from which the picture is taken to show it
LEAST_PICTURES = 3  # that must show what a question asks for


class ShortAnswers(NamedTuple):
    """Short questions, the scores of pictures without the questions' offsets, and masks of the right and wrong answers;
    other answers are unknown."""

    questions: Sequence[str]
    scores: Float[np.ndarray, "Q K"]
    right: Bool[np.ndarray, "Q K"]
    wrong: Bool[np.ndarray, "Q K"]

    def among(self, pictures: Int64[Tensor, " N"]) -> "ShortAnswers":
        """The answers of some pictures, to those questions for which enough of them are right."""
        chosen = pictures.numpy()
        asked = self.right[:, chosen].sum(1) >= LEAST_PICTURES
        questions = [question for question, is_asked in zip(self.questions, asked, strict=True) if is_asked]
        return ShortAnswers(questions, *(part[asked][:, chosen] for part in self[1:]))

    def pairs(self) -> ScoredAnswers:
        """All pairs that are known to be right or wrong."""
        known = self.right | self.wrong
        zeros = np.zeros(int(known.sum()))
        return ScoredAnswers(self.scores[known], zeros, zeros, self.right[known])

    def first(self) -> ScoredAnswers:
        """The best score of every question, first with its right answers, then without them."""
        best = [np.where(mask, self.scores, -np.inf).max(1) for mask in (self.right | self.wrong, self.wrong)]
        values = np.concatenate(best)
        zeros = np.zeros(len(values))
        return ScoredAnswers(values, zeros, zeros, np.repeat([True, False], len(self.questions)))


def answers_to_words(matcher: Matcher, data: CaptionedFeatures, progress: Progress | None = None) -> ShortAnswers:
    """The answers to every word of the captions that enough pictures show."""
    counts = [
        Counter(word for caption in captions for word in set(matcher.words(caption)) - {START, END})
        for captions in data.captions
    ]
    needed = np.array([min(SAYING, len(captions)) for captions in data.captions])
    shown = Counter(word for each, least in zip(counts, needed, strict=True) for word in each if each[word] >= least)
    words = sorted(word for word, count in shown.items() if count >= LEAST_PICTURES and is_content_word(word))
    num_captions = np.array([[each[word] for each in counts] for word in words]).reshape(len(words), len(counts))
    scores = question_scores(matcher, data, words, progress).without_offset if words else np.zeros(num_captions.shape)
    return ShortAnswers(words, scores, (num_captions >= needed) & (num_captions > 0), num_captions == 0)


def fit_short_match(answers: ShortAnswers) -> MatchTest | None:
    """The test fitted to all pairs, with thresholds fitted to first answers; None without questions, or if higher
    scores are not right more often."""
    if not answers.questions:
        return None
    try:
        log_odds = fit_log_odds(answers.pairs())
    except Uncalibratable:
        return None
    return MatchTest.with_thresholds(log_odds, answers.first())


def assess_short_match(test: MatchTest, answers: ShortAnswers) -> dict[str, Any]:
    """The quality of the probabilities of all pairs, and the shares of verdicts on first answers with (`present`) and
    without (`absent`) a right one; for JSON."""
    pairs, first = answers.pairs(), answers.first()
    predicted, best = test.probability(pairs.scores), test.probability(first.scores)
    return {
        "questions": len(answers.questions),
        "answers": len(predicted),
        "error": expected_calibration_error(predicted, pairs.correct),
        "brier_skill": brier_skill_score(predicted, pairs.correct),
        "auc": area_under_roc(predicted, pairs.correct),
        "reliability": reliability_table(predicted, pairs.correct),
        "matched": test.shares_of_verdicts(best, first.correct),
    }
