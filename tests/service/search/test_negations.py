"""Words that rule something out are found, and words that only look so are left alone."""

import re

import pytest

from service.search.wording.exclusions import Question, parts_of
from service.search.wording.negations import negation_in


@pytest.mark.parametrize(
    "marked",
    [
        *("a kitchen [without] people", "[No] dogs on a beach", "a man who [isn't] wearing a hat"),
        *("a man who [doesn’t] smile", "everything [except] cats", "[dont] show dogs", "a man who [isnt] smiling"),
        *("a dog [w/o] a collar", "[noone] on the beach", "[apart from] dogs", "[anything but] dogs", "dog [-cat]"),
        *("the cat [minus] the dog", "dog [NOT] cat"),
    ],
)
def test_a_word_that_rules_something_out_is_named(marked: str) -> None:
    before, word, after = re.split(r"[\[\]]", marked)
    assert negation_in(before + word + after) == word


@pytest.mark.parametrize(
    "query",
    [
        *("a sign that says no parking", "no parking any time sign", "a card saying don't worry", "bus no. 7", "No 5"),
        *("no 7 bus", "Dr No", "a no smoking sign", "a do not enter sign", "not only dogs", "a don't walk sign"),
        *("can't wait for christmas", "can't stop laughing", "never mind", "no doubt", "forget me not flowers"),
        *("forget-me-nots", "notes", "a knot", "black-and-white", "a well-dressed man", "we want peace", "-"),
        "- a dog",
    ],
)
def test_other_words_rule_nothing_out(query: str) -> None:
    assert negation_in(query) is None
    assert parts_of(query) == Question(query)
