"""Content words are told from function words, endings and punctuation."""

import pytest

from models.text.content_words import is_content_word
from models.text.pretrained_reader import shipped_reader
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


def test_what_is_left_of_words_with_an_apostrophe_names_nothing() -> None:
    words = shipped_reader().tokens("a child's cake that isn't there, I'm sure they'll don't")
    content = [word for word in words[1:-1] if is_content_word(word)]
    assert content == ["child", "cake", "sure", "don"]  # a name
