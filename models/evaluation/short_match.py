"""Probabilities that a picture shows what a short question asks for, fitted to words of captions.

Many pictures may answer a question of a word or two, so that its probability is not that of being the one picture
described: it is that of showing what the word names, whatever else a gallery holds. A picture shows it where SAYING of
its captions have the word (its only one, if it has one), and does not where none has; of others it is not known.
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

SAYING = 2  # captions of a picture that must have a word, so that the picture surely shows it
LEAST_PICTURES = 3  # that must show what a question asks for, for it to be asked


class ShortAnswers(NamedTuple):
    """Short questions and the scores of pictures, without the questions' offsets; which pictures are right and wrong
    answers. What is neither may be either."""

    questions: Sequence[str]
    scores: Float[np.ndarray, "Q K"]
    right: Bool[np.ndarray, "Q K"]
    wrong: Bool[np.ndarray, "Q K"]

    def among(self, pictures: Int64[Tensor, " N"]) -> "ShortAnswers":
        """The answers of some pictures, to the questions that enough of these are right for."""
        chosen = pictures.numpy()
        asked = self.right[:, chosen].sum(1) >= LEAST_PICTURES
        questions = [one for one, is_asked in zip(self.questions, asked, strict=True) if is_asked]
        return ShortAnswers(questions, *(part[asked][:, chosen] for part in self[1:]))

    def pairs(self) -> ScoredAnswers:
        """All pairs of which it is known whether they are right."""
        known = self.right | self.wrong
        none = np.zeros(int(known.sum()))
        return ScoredAnswers(self.scores[known], none, none, self.right[known])

    def first(self) -> ScoredAnswers:
        """The best score of every question that has a right answer, then those with its right answers left out."""
        best = [np.where(of, self.scores, -np.inf).max(1) for of in (self.right | self.wrong, self.wrong)]
        values = np.concatenate(best)
        none = np.zeros(len(values))
        return ScoredAnswers(values, none, none, np.repeat([True, False], len(self.questions)))


def answers_to_words(matcher: Matcher, data: CaptionedFeatures, progress: Progress | None = None) -> ShortAnswers:
    """The answers to every word of the captions that enough pictures show."""
    counts = [
        Counter(word for caption in captions for word in set(matcher.words(caption)) - {START, END})
        for captions in data.captions
    ]
    needed = np.array([min(SAYING, len(captions)) for captions in data.captions])
    shown = Counter(word for own, least in zip(counts, needed, strict=True) for word in own if own[word] >= least)
    words = sorted(word for word, count in shown.items() if count >= LEAST_PICTURES and is_content_word(word))
    said = np.array([[own[word] for own in counts] for word in words]).reshape(len(words), len(counts))
    scores = question_scores(matcher, data, words, progress).without_offset if words else np.zeros(said.shape)
    return ShortAnswers(words, scores, (said >= needed) & (said > 0), said == 0)


def fit_short_match(answers: ShortAnswers) -> MatchTest | None:
    """The test fitted to all pairs, its thresholds to first answers; None where no question is asked, or where higher
    scores are not more often right."""
    if not answers.questions:
        return None
    try:
        log_odds = fit_log_odds(answers.pairs())
    except Uncalibratable:
        return None
    return MatchTest.with_thresholds(log_odds, answers.first())


def assess_short_match(test: MatchTest, answers: ShortAnswers) -> dict[str, Any]:
    """How good the probabilities of all pairs are, and the shares of verdicts on first answers where there is a right
    one (`present`) and where there is none (`absent`); for JSON."""
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
