"""Results of searches as people read them."""

from typing import Any

import pytest

from service.cli.terminal.hits import explanation_lines, print_readings, strongest_word


def explanation(**known: Any) -> dict[str, Any]:
    """An explanation of "a dog" with two regions."""
    return {
        "words": [
            {"text": "<start>", "special": True, "content": False},
            {"text": "a", "special": False, "content": False},
            {"text": "dog", "special": False, "content": True},
        ],
        "regions": [{"label": "picture", "box": None}, {"label": "dog", "box": [1.0, 2.2, 30.0, 40.0]}],
        "contributions": None,
        "attention": None,
        "shares": None,
        **known,
    }


ATTENTION = [[0.5, 0.5], [0.2, 0.8], [0.9, 0.1]]


def test_a_word_is_shown_with_the_region_of_its_largest_share() -> None:
    shares = [[0.1, 0.0], [0.03, -0.01], [0.1, 0.15]]
    lines = explanation_lines(explanation(contributions=[0.1, 0.02, 0.25], attention=ATTENTION, shares=shares))
    assert lines == ["  a +0.020 picture", "  dog +0.250 dog [1, 2, 30, 40]", "  (<start>) +0.100"]


def test_a_word_that_is_ruled_out_is_shown_with_the_region_that_counts_most_against_the_picture() -> None:
    words = [{"text": "grass", "special": False, "content": True, "excluded": True}]
    why = explanation(words=words, contributions=[-0.3], shares=[[-0.1, -0.2]], attention=[[0.9, 0.1]])
    assert explanation_lines(why) == ["  no grass -0.300 dog [1, 2, 30, 40]"]
    assert explanation_lines({**why, "shares": None}) == ["  no grass -0.300 picture"]
    assert strongest_word(why) == "no grass -0.300"


def test_what_the_text_alone_found_says_so() -> None:
    why = explanation(kind="text", words=[{"text": "zeppelin", "special": False}], regions=[])
    assert explanation_lines(why) == ["  found by its text alone: zeppelin"]


def test_without_shares_a_word_is_shown_with_the_region_it_attends_to_most() -> None:
    assert explanation_lines(explanation(attention=ATTENTION)) == ["  a dog [1, 2, 30, 40]", "  dog picture"]
    assert explanation_lines(explanation()) == ["  This model's score is no sum over the words."]
    assert explanation_lines({}) == []


def test_a_date_in_the_query_is_offered_as_options(capsys: pytest.CaptureFixture[str]) -> None:
    for options, gte, lte in (("--since 2019 --until 2021", "2019", "2021"), ("--until 2019", None, "2019")):
        print_readings({"suggestion": {"query": "dogs", "taken_at": {"gte": gte, "lte": lte}}})
        assert capsys.readouterr().out == f"only pictures of that time: ask for “dogs” with {options}\n"


def test_the_strongest_word_is_the_one_that_added_most() -> None:
    assert strongest_word(explanation(contributions=[0.9, 0.02, 0.25])) == "dog +0.250"  # 0.9 is no word's
    assert strongest_word(explanation(contributions=[0.9, 0.3, 0.25])) == "dog +0.250"  # "a" shows nothing
    without = [{"text": text, "special": False, "content": False} for text in ("of", "the")]
    assert strongest_word(explanation(words=without, contributions=[-0.02, -0.25])) == "of -0.020"
    others = [explanation(contributions=[0.0, 0.0, 0.5]), explanation(contributions=[0.0, 0.1, 0.3])]
    assert strongest_word(explanation(contributions=[0.9, 0.02, 0.25]), others) == "dog -0.150"  # than in the others
    assert strongest_word(explanation(contributions=[0.9, 0.02, 0.25]), [explanation(), {}]) == "dog +0.250"
    assert strongest_word(explanation()) == ""
    assert strongest_word({}) == ""
