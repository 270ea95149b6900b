"""Content words are told from function words, endings and punctuation."""

import pytest

from models.text.content_words import is_content_word
from models.text.vocabulary import tokenize


@pytest.mark.parametrize(
    ("sentence", "content"),
    [
        ("A black dog chases the ball on grass.", ["black", "dog", "chases", "ball", "grass"]),
        ("the dog's ball isn't red", ["dog", "ball", "red"]),
        ("no people behind two cars", ["no", "people", "behind", "two", "cars"]),
        ("what is it?", []),
        ("café 2019", ["café", "2019"]),
    ],
)
def test_content_words_name_something(sentence: str, content: list[str]) -> None:
    assert [word for word in tokenize(sentence) if is_content_word(word)] == content


def test_words_are_told_apart_in_any_case() -> None:
    assert not is_content_word("The")
    assert not is_content_word("’s")
    assert is_content_word("DOG")
