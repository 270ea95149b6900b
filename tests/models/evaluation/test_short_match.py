"""Whether pictures show what short questions ask for: which are right by captions, and the fit against plain loops."""

import numpy as np
import pytest
import torch

from models.datasets.captioned_features import CaptionedFeatures
from models.evaluation.question_scores import question_scores
from models.evaluation.short_match import ShortAnswers, answers_to_words, assess_short_match, fit_short_match
from models.matching.log_odds import LogOddsModel
from models.matching.match_verdict import MatchTest
from tests.support.small_matchers import small_matcher

WORDS = ("dog", "cup", "kite")


def captioned(captions: list[list[str]]) -> CaptionedFeatures:
    features = np.random.default_rng(4).normal(size=(len(captions), 3, 16)).astype(np.float16)
    return CaptionedFeatures.from_arrays(features, np.ones((len(captions), 3), bool), captions, "fake-extractor")


def drawn(seed: int = 0, slope: float = 1.5, intercept: float = -3.0) -> ShortAnswers:
    """Answers that are right with the probability that their scores say; of a tenth it is not known."""
    random = np.random.default_rng(seed)
    scores = random.normal(size=(80, 60))
    right = random.random(scores.shape) < 1 / (1 + np.exp(-(slope * scores + intercept)))
    known = random.random(scores.shape) < 0.9
    return ShortAnswers([str(n) for n in range(80)], scores, right & known, ~right & known)


def test_a_picture_shows_what_two_captions_say_and_not_what_none_says() -> None:
    said = [["a dog", "the dog runs"], ["a dog", "a cup"], ["the cup", "a cup"], ["the kite"]]
    data = captioned([*said, *[["dog dog", "my dog"]] * 2, *[["cup"]] * 2])
    answers = answers_to_words(small_matcher("scan-t2i-avg", words=WORDS), data)
    assert answers.questions == ["cup", "dog"]  # one picture alone has a kite; "runs", too
    right, wrong = answers.right.tolist(), answers.wrong.tolist()
    assert right[0] == [False, False, True, False, False, False, True, True]
    assert right[1] == [True, False, False, False, True, True, False, False]
    assert wrong[0] == [True, False, False, True, True, True, False, False]
    assert wrong[1] == [False, False, True, True, False, False, True, True]
    few = answers.among(torch.tensor([0, 2, 4, 5]))
    assert few.questions == ["dog"]
    assert few.right.tolist() == [[True, False, True, True]]
    assert np.array_equal(few.scores, answers.scores[1:, [0, 2, 4, 5]])


def test_scores_are_those_before_the_offset_is_taken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    matcher = small_matcher("bfan-equal", words=WORDS)
    data = captioned([["a dog"]] * 5)
    plain = question_scores(matcher, data, ["dog", "cup"])
    own = matcher.encode_texts

    def with_offset(tokens):  # type: ignore[no-untyped-def]
        texts, embeddings = own(tokens)
        texts.offset.copy_(torch.arange(len(texts)) + 0.25)
        return texts, embeddings

    monkeypatch.setattr(matcher, "encode_texts", with_offset)
    lowered = question_scores(matcher, data, ["dog", "cup"])
    assert lowered.without_offset == pytest.approx(plain.exhaustive, abs=1e-6)
    assert lowered.exhaustive == pytest.approx(plain.exhaustive - [[0.25], [1.25]], abs=1e-6)


def test_the_numbers_that_answers_were_drawn_with_are_fitted() -> None:
    test = fit_short_match(drawn())
    assert test is not None
    assert (test.log_odds.slope, test.log_odds.intercept) == pytest.approx((1.5, -3.0), abs=0.3)
    answers = drawn()
    best, without = [], []
    for scores, right, wrong in zip(answers.scores, answers.right, answers.wrong, strict=True):
        pairs = [*zip(scores, right, wrong, strict=True)]
        best.append(max(score for score, is_right, is_wrong in pairs if is_right or is_wrong))
        without.append(max(score for score, _, is_wrong in pairs if is_wrong))
    told = [float(test.probability(score)) for score in without]
    assert test.present_from == pytest.approx(np.quantile(told, 0.9))
    assert test.absent_below == pytest.approx(np.quantile([float(test.probability(score)) for score in best], 0.1))


def test_what_says_nothing_is_not_fitted() -> None:
    answers = drawn()
    assert fit_short_match(answers._replace(scores=-answers.scores)) is None
    assert fit_short_match(answers.among(torch.tensor([0]))) is None  # one picture, so that no question is left


def test_the_report_counts_what_is_known() -> None:
    test, answers = MatchTest(LogOddsModel(1.5, -3.0), 0.1, 0.4), drawn(seed=1)
    report = assess_short_match(test, answers)
    assert report["questions"] == 80
    assert report["answers"] == answers.right.sum() + answers.wrong.sum()
    assert report["error"] < 0.02
    assert report["auc"] > 0.7
    claimed = [max(scores[wrong]) for scores, wrong in zip(answers.scores, answers.wrong, strict=True)]
    assert report["matched"]["absent"]["matched"] == np.mean([float(test.probability(one)) >= 0.4 for one in claimed])
