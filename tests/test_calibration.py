"""Probabilities that keep what they promise."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.calibration import (
    Calibration,
    Evidence,
    Uncalibratable,
    calibration_error,
    fit,
    logistic,
    reliability,
    surprise,
)
from models.hubs import Hubs

FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(
    slope=st.floats(1e-3, 1e3),
    intercept=st.floats(-50, 50),
    scores=st.lists(FINITE, min_size=2, max_size=8),
    candidates=st.integers(1, 10**7),
    right=st.floats(1, 20),
)
def test_a_higher_score_is_never_less_probable(
    slope: float, intercept: float, scores: list[float], candidates: int, right: float
) -> None:
    found = Evidence(slope, intercept).probability(sorted(scores), surprise(candidates, right))
    assert ((found >= 0) & (found <= 1)).all()
    assert (np.diff(found) >= 0).all()


@given(st.sampled_from([math.nan, math.inf, -math.inf, 3e38, -3e38, 1e308, -1e308]))
def test_no_score_gives_what_is_no_probability(score: float) -> None:
    found = float(Evidence(30.0, -4.0).probability(np.float64(score), surprise(1000, 1.0)))
    assert found == (1.0 if score > 0 else 0.0)


def test_the_evidence_meets_the_odds_of_the_gallery_as_bayes_says() -> None:
    """Against his rule in plain numbers: 1000 candidates, 5 of them right, evidence 8 to 1."""
    prior = 5 / 1000
    posterior = 8 * prior / (8 * prior + (1 - prior))
    found = Evidence(1.0, 0.0).probability(math.log(8), surprise(1000, 5.0))
    assert float(found) == pytest.approx(posterior)


def test_an_only_picture_is_not_taken_for_the_one_described() -> None:
    assert surprise(1, 1.0) == surprise(2, 1.0) == 0
    assert surprise(3, 1.0) == pytest.approx(math.log(2))
    assert float(Evidence(10.0, -5.0).probability(0.2, surprise(1, 1.0))) < 0.5


@pytest.mark.parametrize(("slope", "intercept"), [(12.0, -3.0), (0.5, 4.0), (300.0, -60.0)])
def test_the_line_that_drew_the_answers_is_found_again(slope: float, intercept: float) -> None:
    random = np.random.default_rng(3)
    surprises = random.choice([surprise(50, 1.0), surprise(1000, 1.0), surprise(1000, 5.0)], 100_000)
    logits = random.normal(0, 2, 100_000)
    scores = (logits + surprises - intercept) / slope
    right = random.random(100_000) < logistic(logits)
    line = fit(scores, surprises, right)
    assert line.slope == pytest.approx(slope, rel=0.02)
    assert line.slope * scores.mean() + line.intercept == pytest.approx(slope * scores.mean() + intercept, abs=0.05)
    assert calibration_error(line.probability(scores, surprises), right) < 0.01


@given(seed=st.integers(0, 1000), size=st.integers(4, 60))
def test_no_other_line_explains_the_answers_better(seed: int, size: int) -> None:
    random = np.random.default_rng(seed)
    scores, surprises = random.normal(size=size), random.random(size)
    right = random.random(size) < logistic(2 * scores)
    right[:2] = [True, False]

    def unlikeliness(slope: float, intercept: float) -> float:
        logits = slope * scores + intercept - surprises
        return float(np.logaddexp(0, np.where(right, -logits, logits)).sum())

    try:
        line = fit(scores, surprises, right)
    except Uncalibratable:
        return
    best = unlikeliness(line.slope, line.intercept)
    for slope, intercept in random.normal([line.slope, line.intercept], 0.5, (20, 2)):
        # The fit pays a little for steepness, so that answers told apart without fault have a finite slope.
        assert best <= unlikeliness(slope, intercept) + 1e-2 * (1 + slope**2 + intercept**2)


def test_answers_told_apart_without_fault_have_a_finite_slope() -> None:
    line = fit(np.array([0.0, 1.0, 2.0, 3.0]), np.zeros(4), np.array([False, False, True, True]))
    assert line.probability([0.0, 3.0]) == pytest.approx(np.array([0, 1]), abs=0.01)


def test_scores_that_say_nothing_are_refused() -> None:
    scores, right = np.arange(6.0), np.array([True, True, True, False, False, False])
    with pytest.raises(Uncalibratable, match="higher score"):
        fit(scores, np.zeros(6), right)
    with pytest.raises(Uncalibratable, match="none are right"):
        fit(scores, np.zeros(6), np.zeros(6, bool))
    with pytest.raises(Uncalibratable, match="slope is nan"):
        Evidence(math.nan, 0.0)


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
    hubs = Hubs(share=0.5, best=1, bank=("a dog", "a cat"))
    first = Calibration(text=Evidence(2.0, -1.0), image=Evidence(3.0, 0.5), hubs=hubs, fitted={"pictures": 5})
    assert Calibration.of_dict(first.as_dict()) == first
    with pytest.raises(ValueError, match="no calibration"):
        Calibration.of_dict({"text": {"slope": 1.0}})
