"""Candidates: probabilities that go by the scores, whatever a filter leaves of a shortlist."""

import numpy as np
import pytest

from models.matching.log_odds import LogOddsModel
from service.search.candidates import Candidates, never_falling


def test_no_probability_is_below_that_of_a_lower_score_where_a_filter_reaches_further_down() -> None:
    """A candidate that no search without the filter hands on scores best, little above the first of those."""
    found = Candidates(rows=[0, 7], scores=np.zeros(2, np.float32), gallery=10, unfiltered=[0, 1])
    model = LogOddsModel(1.0, 0.0, margin_weight=5.0)
    rescored = found.rescored(np.array([0.8, 0.9, 0.1], np.float32), model)
    assert rescored.probabilities is not None
    alone = model.probability([0.8], [0.7], -np.log(9))
    np.testing.assert_allclose(rescored.probabilities, [alone[0], alone[0]], rtol=1e-6)


def test_a_score_that_is_not_a_number_is_the_lowest() -> None:
    raised = never_falling(np.array([0.6, 0.1, 0.3, 0.2]), np.array([2.0, np.nan, 4.0, 1.0], np.float32))
    assert raised.tolist() == [0.6, 0.1, 0.6, 0.2]
    with_one_above = never_falling(np.array([0.2, 0.5]), np.array([1.0, np.nan], np.float32))
    assert with_one_above.tolist() == pytest.approx([0.5, 0.5])
