"""Probabilities that keep what they promise."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.matching.calibration import (
    Answers,
    Calibration,
    Evidence,
    Uncalibratable,
    calibration_error,
    fit,
    leads,
    logistic,
    reliability,
    surprise,
)
from models.matching.hubness import Hubs

FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(
    evidence=st.builds(
        Evidence, st.floats(1e-3, 1e3), st.floats(-50, 50), lead=st.floats(0, 1e3), crowd=st.floats(0, 2)
    ),
    scores=st.lists(FINITE, min_size=1, max_size=8),
    candidates=st.integers(1, 10**7),
    right=st.floats(1, 20),
)
def test_a_higher_score_is_never_less_probable(
    evidence: Evidence, scores: list[float], candidates: int, right: float
) -> None:
    ordered = np.array(sorted(scores))
    found = evidence.probability(ordered, leads(ordered), surprise(candidates, right))
    assert ((found >= 0) & (found <= 1)).all()
    assert (np.diff(found) >= 0).all()


@given(st.sampled_from([math.nan, math.inf, -math.inf, 3e38, -3e38, 1e308, -1e308]))
def test_no_score_gives_what_is_no_probability(score: float) -> None:
    scores = np.array([score, 0.1])
    found = Evidence(30.0, -4.0, lead=5.0).probability(scores, leads(scores), surprise(1000, 1.0))
    assert found[0] == (1.0 if score > 0 else 0.0)
    assert 0 <= found[1] <= 1


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=6))
def test_a_lead_is_the_distance_from_the_best_of_the_others(scores: list[float]) -> None:
    expected = [one - max(scores[:n] + scores[n + 1 :]) for n, one in enumerate(scores)]
    np.testing.assert_allclose(leads(np.array([scores, scores[::-1]])), [expected, expected[::-1]])
    assert leads(np.array([3.0])).tolist() == [0.0]


def test_the_evidence_meets_the_odds_of_the_gallery_as_bayes_says() -> None:
    """Against his rule in plain numbers: 1000 candidates, 5 of them right, evidence 8 to 1."""
    prior = 5 / 1000
    posterior = 8 * prior / (8 * prior + (1 - prior))
    found = Evidence(1.0, 0.0).probability(math.log(8), 0.0, surprise(1000, 5.0))
    assert float(found) == pytest.approx(posterior)


def test_an_only_picture_is_not_taken_for_the_one_described() -> None:
    assert surprise(1, 1.0) == surprise(2, 1.0) == 0
    assert surprise(3, 1.0) == pytest.approx(math.log(2))
    assert float(Evidence(10.0, -5.0).probability(0.2, 0.0, surprise(1, 1.0))) < 0.5


@pytest.mark.parametrize(
    "drawn", [Evidence(12.0, -3.0), Evidence(0.5, 4.0, 0.25, 0.5), Evidence(300.0, -60.0, 100.0, 0.7)]
)
def test_the_numbers_that_drew_the_answers_are_found_again(drawn: Evidence) -> None:
    random = np.random.default_rng(3)
    surprises = random.choice([surprise(50, 1.0), surprise(1000, 1.0), surprise(1000, 5.0)], 200_000)
    scores = random.normal(size=200_000) * 2 / drawn.slope + (3 - drawn.intercept) / drawn.slope
    ahead = random.normal(size=200_000) / drawn.slope
    right = random.random(200_000) < drawn.probability(scores, ahead, surprises)
    found = fit(Answers(scores, ahead, surprises, right))
    assert found.slope == pytest.approx(drawn.slope, rel=0.03)
    assert found.lead == pytest.approx(drawn.lead, abs=0.03 * drawn.slope)
    assert found.crowd == pytest.approx(drawn.crowd, abs=0.05)
    at_mean, expected = (one.probability(scores.mean(), 0.0, 4.0) for one in (found, drawn))
    assert float(at_mean) == pytest.approx(float(expected), abs=0.01)
    assert calibration_error(found.probability(scores, ahead, surprises), right) < 0.01


@given(seed=st.integers(0, 1000), size=st.integers(4, 60))
def test_no_other_line_explains_the_answers_better(seed: int, size: int) -> None:
    random = np.random.default_rng(seed)
    scores, surprises, ahead = random.normal(size=size), random.random(size), np.zeros(size)
    right = random.random(size) < logistic(2 * scores)
    right[:2] = [True, False]

    def unlikeliness(slope: float, intercept: float, crowd: float) -> float:
        logits = slope * scores + intercept - crowd * surprises
        return float(np.logaddexp(0, np.where(right, -logits, logits)).sum())

    try:
        found = fit(Answers(scores, ahead, surprises, right))
    except Uncalibratable:
        return
    numbers = [found.slope, found.intercept, found.crowd]
    if found.crowd == 1:  # a crowd that helps was given up: the best of the others has this crowd
        tried = random.normal(numbers, [0.5, 0.5, 0.0], (20, 3))
    else:
        tried = random.normal(numbers, 0.5, (20, 3))
    for other in tried:
        # The fit pays a little for steepness, so that answers told apart without fault have a finite slope.
        assert unlikeliness(*numbers) <= unlikeliness(*other) + 2e-2 * (1 + (other**2).sum())


def test_answers_told_apart_without_fault_have_a_finite_slope() -> None:
    shown = np.array([0.0, 1.0, 2.0, 3.0]), np.zeros(4), np.zeros(4), np.array([False, False, True, True])
    line = fit(Answers(*shown))
    assert line.probability([0.0, 3.0]) == pytest.approx(np.array([0, 1]), abs=0.01)


def test_scores_that_say_nothing_are_refused() -> None:
    scores, right = np.arange(6.0), np.array([True, True, True, False, False, False])
    with pytest.raises(Uncalibratable, match="higher score"):
        fit(Answers(scores, np.zeros(6), np.zeros(6), right))
    with pytest.raises(Uncalibratable, match="none are right"):
        fit(Answers(scores, np.zeros(6), np.zeros(6), np.zeros(6, bool)))
    with pytest.raises(Uncalibratable, match="slope is nan"):
        Evidence(math.nan, 0.0)
    with pytest.raises(Uncalibratable, match="below 0"):
        Evidence(1.0, 0.0, lead=-1.0)


@given(factor=st.floats(0.1, 10), shift=st.floats(-5, 5), scores=st.lists(st.floats(-3, 3), min_size=1, max_size=5))
def test_scores_put_on_a_line_mean_what_they_meant(factor: float, shift: float, scores: list[float]) -> None:
    before, first = np.array(scores), Evidence(2.0, -1.0, 0.5, 0.7)
    after = factor * before + shift
    found = first.rescaled(factor, shift).probability(after, leads(after), 3.0)
    np.testing.assert_allclose(found, first.probability(before, leads(before), 3.0), atol=1e-6)


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=50))
def test_the_calibration_error_is_the_loop_over_bins(pairs: list[tuple[float, bool]]) -> None:
    predicted, right = np.array([p for p, _ in pairs]), np.array([r for _, r in pairs])
    error = 0.0
    for place in range(10):
        inside = [(p, r) for p, r in pairs if min(int(p * 10), 9) == place]
        if inside:
            error += abs(sum(p for p, _ in inside) - sum(r for _, r in inside)) / len(pairs)
    assert calibration_error(predicted, right) == pytest.approx(error)
    assert sum(row["count"] for row in reliability(predicted, right)) == len(pairs)


def test_a_calibration_is_read_as_it_was_written() -> None:
    hubs = Hubs(pictures=0.5, sentences=0.25, best=1)
    first = Calibration(text=Evidence(2.0, -1.0), image=Evidence(3.0, 0.5), hubs=hubs, fitted={"pictures": 5})
    assert Calibration.of_dict(first.as_dict()) == first
    with pytest.raises(ValueError, match="no calibration"):
        Calibration.of_dict({"text": {"slope": 1.0}})
