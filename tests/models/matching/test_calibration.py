"""Calibration: probabilities that are observed as often as they say."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.matching.calibration import Calibration, brier_skill_score, expected_calibration_error, reliability_table
from models.matching.hubness import HubnessConfig
from models.matching.log_odds import (
    LogOddsModel,
    ScoredAnswers,
    Uncalibratable,
    fit_log_odds,
    logistic,
    margins,
    prior_log_odds,
)

FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(
    model=st.builds(
        LogOddsModel,
        st.floats(1e-3, 1e3),
        st.floats(-50, 50),
        margin_weight=st.floats(0, 1e3),
        gallery_weight=st.floats(0, 2),
    ),
    scores=st.lists(FINITE, min_size=1, max_size=8),
    candidates=st.integers(1, 10**7),
    right=st.floats(1, 20),
)
def test_a_higher_score_is_never_less_probable(
    model: LogOddsModel, scores: list[float], candidates: int, right: float
) -> None:
    ordered = np.array(sorted(scores))
    found = model.probability(ordered, margins(ordered), prior_log_odds(candidates, right))
    assert ((found >= 0) & (found <= 1)).all()
    assert (np.diff(found) >= 0).all()


@given(st.sampled_from([math.nan, math.inf, -math.inf, 3e38, -3e38, 1e308, -1e308]))
def test_a_score_that_is_not_finite_has_a_probability_all_the_same(score: float) -> None:
    scores = np.array([score, 0.1])
    model = LogOddsModel(30.0, -4.0, margin_weight=5.0)
    found = model.probability(scores, margins(scores), prior_log_odds(1000, 1.0))
    assert found[0] == (1.0 if score > 0 else 0.0)
    assert 0 <= found[1] <= 1


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=6))
def test_a_margin_is_the_distance_from_the_best_of_the_other_scores(scores: list[float]) -> None:
    expected = [one - max(scores[:n] + scores[n + 1 :]) for n, one in enumerate(scores)]
    np.testing.assert_allclose(margins(np.array([scores, scores[::-1]])), [expected, expected[::-1]])
    assert margins(np.array([3.0])).tolist() == [0.0]


def test_score_and_prior_are_combined_by_the_rule_of_bayes() -> None:
    """In plain numbers: 1000 candidates, 5 of them right, a likelihood ratio of 8 to 1."""
    prior = 5 / 1000
    posterior = 8 * prior / (8 * prior + (1 - prior))
    found = LogOddsModel(1.0, 0.0).probability(math.log(8), 0.0, prior_log_odds(1000, 5.0))
    assert float(found) == pytest.approx(posterior)


def test_an_only_picture_is_not_taken_for_the_one_described() -> None:
    assert prior_log_odds(1, 1.0) == prior_log_odds(2, 1.0) == 0
    assert prior_log_odds(3, 1.0) == pytest.approx(-math.log(2))
    assert float(LogOddsModel(10.0, -5.0).probability(0.2, 0.0, prior_log_odds(1, 1.0))) < 0.5


@pytest.mark.parametrize(
    "drawn", [LogOddsModel(12.0, -3.0), LogOddsModel(0.5, 4.0, 0.25, 0.5), LogOddsModel(300.0, -60.0, 100.0, 0.7)]
)
def test_the_numbers_that_answers_were_drawn_with_are_fitted(drawn: LogOddsModel) -> None:
    random = np.random.default_rng(3)
    priors = random.choice([prior_log_odds(50, 1.0), prior_log_odds(1000, 1.0), prior_log_odds(1000, 5.0)], 200_000)
    scores = random.normal(size=200_000) * 2 / drawn.slope + (3 - drawn.intercept) / drawn.slope
    above = random.normal(size=200_000) / drawn.slope
    correct = random.random(200_000) < drawn.probability(scores, above, priors)
    found = fit_log_odds(ScoredAnswers(scores, above, priors, correct))
    assert found.slope == pytest.approx(drawn.slope, rel=0.03)
    assert found.margin_weight == pytest.approx(drawn.margin_weight, abs=0.03 * drawn.slope)
    assert found.gallery_weight == pytest.approx(drawn.gallery_weight, abs=0.05)
    at_mean, expected = (one.probability(scores.mean(), 0.0, -4.0) for one in (found, drawn))
    assert float(at_mean) == pytest.approx(float(expected), abs=0.01)
    assert expected_calibration_error(found.probability(scores, above, priors), correct) < 0.01


def test_answers_more_often_right_in_large_galleries_are_fitted_by_scores_alone() -> None:
    random = np.random.default_rng(3)
    priors = random.choice([prior_log_odds(50, 1.0), prior_log_odds(1000, 1.0)], 20_000)
    scores, above = random.normal(size=(2, 20_000))
    correct = random.random(20_000) < logistic(2 * scores + above - 0.5 * priors - 3)
    found = fit_log_odds(ScoredAnswers(scores, above, priors, correct))
    assert found.slope > 0
    assert (found.margin_weight, found.gallery_weight) == (0, 1)


@given(seed=st.integers(0, 1000), size=st.integers(4, 60))
def test_no_other_model_fits_the_answers_better(seed: int, size: int) -> None:
    random = np.random.default_rng(seed)
    scores, priors, no_margins = random.normal(size=size), -random.random(size), np.zeros(size)
    correct = random.random(size) < logistic(2 * scores)
    correct[:2] = [True, False]

    def negative_log_likelihood(slope: float, intercept: float, gallery_weight: float) -> float:
        logits = slope * scores + intercept + gallery_weight * priors
        return float(np.logaddexp(0, np.where(correct, -logits, logits)).sum())

    try:
        found = fit_log_odds(ScoredAnswers(scores, no_margins, priors, correct))
    except Uncalibratable:
        return
    numbers = [found.slope, found.intercept, found.gallery_weight]
    if found.gallery_weight == 1:  # as it is without a fit of its own: compare with models of the same weight
        tried = random.normal(numbers, [0.5, 0.5, 0.0], (20, 3))
    else:
        tried = random.normal(numbers, 0.5, (20, 3))
    for other in tried:
        # The fit pays a little for steepness, so that answers told apart without fault have a finite slope.
        assert negative_log_likelihood(*numbers) <= negative_log_likelihood(*other) + 2e-2 * (1 + (other**2).sum())


def test_answers_told_apart_without_fault_have_a_finite_slope() -> None:
    answers = np.array([0.0, 1.0, 2.0, 3.0]), np.zeros(4), np.zeros(4), np.array([False, False, True, True])
    model = fit_log_odds(ScoredAnswers(*answers))
    assert model.probability([0.0, 3.0]) == pytest.approx(np.array([0, 1]), abs=0.01)


def test_scores_that_say_nothing_are_refused() -> None:
    scores, correct = np.arange(6.0), np.array([True, True, True, False, False, False])
    with pytest.raises(Uncalibratable, match="higher score"):
        fit_log_odds(ScoredAnswers(scores, np.zeros(6), np.zeros(6), correct))
    with pytest.raises(Uncalibratable, match="none are right"):
        fit_log_odds(ScoredAnswers(scores, np.zeros(6), np.zeros(6), np.zeros(6, bool)))
    with pytest.raises(Uncalibratable, match="slope is nan"):
        LogOddsModel(math.nan, 0.0)
    with pytest.raises(Uncalibratable, match="below 0"):
        LogOddsModel(1.0, 0.0, margin_weight=-1.0)


@given(scale=st.floats(0.1, 10), shift=st.floats(-5, 5), scores=st.lists(st.floats(-3, 3), min_size=1, max_size=5))
def test_rescaled_scores_keep_their_probability(scale: float, shift: float, scores: list[float]) -> None:
    before, model = np.array(scores), LogOddsModel(2.0, -1.0, 0.5, 0.7)
    after = scale * before + shift
    found = model.of_rescaled_scores(scale, shift).probability(after, margins(after), -3.0)
    np.testing.assert_allclose(found, model.probability(before, margins(before), -3.0), atol=1e-6)


def test_the_brier_skill_of_a_constant_is_0_and_of_certainty_1() -> None:
    correct = np.array([True, False, False, False])
    assert brier_skill_score(np.full(4, 0.25), correct) == pytest.approx(0)
    assert brier_skill_score(correct.astype(float), correct) == 1
    predicted = np.array([0.5, 0.1, 0.2, 0.4])
    squares = sum((p - c) ** 2 for p, c in zip(predicted, correct, strict=True)) / 4
    assert brier_skill_score(predicted, correct) == pytest.approx(1 - squares / (0.25 * 0.75))
    assert brier_skill_score(np.full(4, 0.9), correct) < 0
    assert brier_skill_score(np.array([0.9]), np.array([True])) == 0


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=50))
def test_the_calibration_error_is_the_loop_over_bins(pairs: list[tuple[float, bool]]) -> None:
    predicted, correct = np.array([p for p, _ in pairs]), np.array([r for _, r in pairs])
    error = 0.0
    for number in range(10):
        inside = [(p, r) for p, r in pairs if min(int(p * 10), 9) == number]
        if inside:
            error += abs(sum(p for p, _ in inside) - sum(r for _, r in inside)) / len(pairs)
    assert expected_calibration_error(predicted, correct) == pytest.approx(error)
    assert sum(row["count"] for row in reliability_table(predicted, correct)) == len(pairs)


def test_a_calibration_is_read_as_it_was_written() -> None:
    hubness = HubnessConfig(image_weight=0.5, text_weight=0.25, neighbours=1)
    first = Calibration(
        text=LogOddsModel(2.0, -1.0, 0.25, 0.5),
        image=LogOddsModel(3.0, 0.5),
        hubness=hubness,
        fitted_on={"pictures": 5},
    )
    assert Calibration.from_dict(first.as_dict()) == first
    assert first.as_dict() == {
        "text": {"slope": 2.0, "intercept": -1.0, "lead": 0.25, "crowd": 0.5},
        "image": {"slope": 3.0, "intercept": 0.5, "lead": 0.0, "crowd": 1.0},
        "hubs": {"pictures": 0.5, "sentences": 0.25, "best": 1, "by": "embeddings"},
        "fitted": {"pictures": 5},
    }
    with pytest.raises(ValueError, match="no calibration"):
        Calibration.from_dict({"text": {"slope": 1.0}})
