"""Options of models: of the kind that each is, or refused by name."""

import math
from typing import Any

import pytest

from models.rerankers.registry import POSITIVE_OPTIONS, RERANKERS, UnknownOption, entry_of


@pytest.mark.parametrize("name", RERANKERS)
def test_the_options_that_a_model_has_are_those_that_it_takes(name: str) -> None:
    config = entry_of(name).config
    assert entry_of(name, vars(config)).config == config


@pytest.mark.parametrize(
    ("name", "option", "value", "words"),
    [
        ("bfan-equal", "focal", "foo", "one of 'prob', 'equal', not 'foo'"),
        ("bfan-equal", "lambda_softmax", "x", "a number, not 'x'"),
        ("bfan-equal", "lambda_softmax", None, "a number, not None"),
        ("bfan-equal", "lambda_softmax", True, "a number, not True"),
        ("bfan-equal", "lambda_softmax", math.nan, "a number, not nan"),
        ("scan-t2i-avg", "pooling", "foo", "one of 'LogSumExp', 'Mean', 'Max', 'Sum', not 'foo'"),
        ("camp", "key_width", 8.5, "a whole number or null, not 8.5"),
        ("caan", "attention_width", "8", "a whole number, not '8'"),
        ("sman", "divide_by_regions", 1, "true or false, not 1"),
    ],
)
def test_a_value_that_is_none_is_refused_with_what_there_is(name: str, option: str, value: Any, words: str) -> None:
    with pytest.raises(UnknownOption, match=f"the option {option} of {name} is {words}"):
        entry_of(name, {option: value})


def test_temperatures_and_widths_are_above_zero() -> None:
    seen = set()
    for name, entry in RERANKERS.items():
        for option in set(POSITIVE_OPTIONS) & set(vars(entry.config)):
            seen.add(option)
            with pytest.raises(UnknownOption, match=f"the option {option} of {name} must be above 0, not 0"):
                entry_of(name, {option: 0})
    assert seen == set(POSITIVE_OPTIONS)


def test_a_whole_number_is_a_number() -> None:
    assert entry_of("bfan-equal", {"lambda_softmax": 9}).config.lambda_softmax == 9
