"""Verdicts of galleries with and without an answer, against plain loops."""

import math

import numpy as np
import pytest

from benchmarks.verdicts_by_length import judged, probabilities
from models.matching.log_odds import LogOddsModel
from models.matching.match_verdict import MatchTest

TEST = MatchTest(LogOddsModel(2.0, 1.0, 3.0, 0.5), absent_below=0.3, present_from=0.6)


def test_the_galleries_are_one_with_the_own_picture_and_one_without() -> None:
    def expected(first: float, second: float) -> float:
        return 1 / (1 + math.exp(-(2 * first + 1 + 3 * (first - second) - 0.5 * math.log(3 - 1))))

    scores = np.array([0.1, 0.9, 0.2, 0.4])
    with_own, without = probabilities(TEST, scores, 1, 3, np.random.default_rng(0))
    assert without == pytest.approx(expected(0.4, 0.2))
    assert any(with_own == pytest.approx(expected(0.9, second)) for second in (0.4, 0.2))


def test_verdicts_are_counted_on_both_sides() -> None:
    told = judged(TEST, [(0.7, 0.1), (0.5, 0.2), (0.2, 0.65), (0.9, 0.4)])
    assert told == {
        "captions": 4,
        "area": 0.781,  # 12 wins and a tie among 16 pairs
        "nothing, where it is": 0.25,
        "nothing, where it is not": 0.5,
        "something, where it is": 0.5,
        "something, where it is not": 0.25,
    }
