"""Answers that differ from a fresh service's are told from those that are as good as equal."""

import pytest

from service.chaos.findings import Findings
from service.chaos.rebuild import TOLERANCE, Ranking, compare_answers, same_ranking

FRESH: Ranking = [("a", 0.9), ("b", 0.5), ("c", 0.5 - TOLERANCE / 2), ("d", 0.1)]


def test_what_is_as_good_as_equal_may_change_places() -> None:
    assert same_ranking(FRESH, FRESH)
    assert same_ranking([], [])
    assert same_ranking([("a", 0.9 - TOLERANCE / 2), ("c", 0.5), ("b", 0.5), ("d", 0.1)], FRESH)
    assert same_ranking([*FRESH[:3], ("e", 0.1)], FRESH)  # as good as the last one, where the list is cut off


@pytest.mark.parametrize(
    "got",
    [
        FRESH[:3],
        [("x", 0.9), *FRESH[1:]],
        [FRESH[1], FRESH[0], *FRESH[2:]],
        [("a", 0.9 + 3 * TOLERANCE), *FRESH[1:]],
        [("b", 0.9), ("a", 0.5), *FRESH[2:]],
    ],
)
def test_another_answer_is_told(got: Ranking) -> None:
    assert not same_ranking(got, FRESH)
    findings = Findings()
    compare_answers({"model: question": got}, {"model: question": FRESH}, findings)
    assert [(finding.kind, finding.subject) for finding in findings.all()] == [("fault", "model: question")]


def test_a_question_that_was_not_answered_is_told() -> None:
    findings = Findings()
    compare_answers({}, {"model: question": FRESH}, findings)
    assert findings.count("fault") == 1
