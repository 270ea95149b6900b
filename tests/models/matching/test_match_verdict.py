"""Whether anything matches: fitted thresholds, verdicts, and the area under the ROC curve by plain loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.matching.log_odds import LogOddsModel, ScoredAnswers, prior_log_odds
from models.matching.match_verdict import WRONG_VERDICTS, MatchTest, area_under_roc, fit_match_test


def first_answers(apart: float, count: int = 4000, seed: int = 0) -> ScoredAnswers:
    """First answers whose scores are normal, those of galleries with an answer `apart` higher."""
    random = np.random.default_rng(seed)
    holds = np.arange(count) % 2 == 0
    scores = random.normal(size=count) + apart * holds
    margins = np.abs(random.normal(size=count)) * (1 + holds)
    return ScoredAnswers(scores, margins, np.full(count, prior_log_odds(100, 1.0)), holds)


@pytest.mark.parametrize("apart", [0.5, 1.5, 6.0])
def test_a_tenth_at_most_is_told_wrongly_where_it_was_fitted(apart: float) -> None:
    answers = first_answers(apart)
    test = fit_match_test(answers)
    verdicts = [test.verdict(*one) for one in zip(*answers[:3], strict=True)]
    for holds, wrong in ((True, False), (False, True)):
        own = [verdict for verdict, correct in zip(verdicts, answers.correct, strict=True) if bool(correct) is holds]
        assert own.count(wrong) / len(own) <= WRONG_VERDICTS + 0.002
    assert (None in verdicts) is (apart < 3)  # what is far apart is always told


def test_thresholds_that_cross_meet_in_the_middle() -> None:
    answers = first_answers(6.0)
    test = fit_match_test(answers)
    probability = test.probability(answers.scores, answers.margins, answers.prior_log_odds)
    holding, lacking = np.quantile(probability[answers.correct], 0.1), np.quantile(probability[~answers.correct], 0.9)
    assert lacking < holding
    assert test.absent_below == test.present_from == pytest.approx((holding + lacking) / 2)


def test_a_probability_at_a_threshold_is_not_below_it() -> None:
    line = LogOddsModel(2.0, -1.0, 0.5)
    probability = float(line.probability(0.7, 0.1, -0.3))
    assert MatchTest(line, probability, probability).verdict(0.7, 0.1, -0.3) is True
    assert MatchTest(line, probability, 1.0).verdict(0.7, 0.1, -0.3) is None


def test_other_questions_are_judged_as_well() -> None:
    test, others = fit_match_test(first_answers(1.5)), first_answers(1.5, seed=1)
    probability = test.probability(others.scores, others.margins, others.prior_log_odds)
    assert (probability[others.correct] < test.absent_below).mean() == pytest.approx(WRONG_VERDICTS, abs=0.03)
    assert area_under_roc(probability, others.correct) > area_under_roc(others.scores, others.correct)


def test_rescaled_scores_are_judged_alike_and_a_mean_stands_between() -> None:
    test = fit_match_test(first_answers(1.0))
    rescaled = test.of_rescaled_scores(3.0, -2.0)
    for score in (-2.0, 0.3, 2.5):
        assert rescaled.verdict(3 * score - 2, 3 * 0.5, -4.0) is test.verdict(score, 0.5, -4.0)
    assert MatchTest.mean([test, test]) == test
    assert MatchTest.from_dict(test.as_dict()) == test


def test_thresholds_out_of_order_are_refused() -> None:
    with pytest.raises(ValueError, match="ascending"):
        MatchTest(LogOddsModel(1.0, 0.0), 0.7, 0.3)


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=30))
def test_the_area_is_the_share_of_pairs_in_order(drawn: list[tuple[int, bool]]) -> None:
    values, positive = np.array([float(v) for v, _ in drawn]), np.array([p for _, p in drawn])
    if positive.all() or not positive.any():
        return
    pairs = [(a, b) for a in values[positive] for b in values[~positive]]
    expected = sum(1.0 if a > b else 0.5 if a == b else 0.0 for a, b in pairs) / len(pairs)
    assert area_under_roc(values, positive) == pytest.approx(expected)
