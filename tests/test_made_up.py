"""Made-up sentences: different, the same again, and readable by a model's vocabulary."""

from models.made_up import DOES, LOOKS, WHERE, WHO, made_up
from models.vocabulary import tokenize


def test_sentences_are_different_and_the_same_for_a_seed() -> None:
    sentences = made_up(500, seed=3)
    assert len(set(sentences)) == 500
    assert made_up(200, seed=3) == sentences[:200]
    assert made_up(200, seed=4) != sentences[:200]
    assert made_up(0) == []


def test_sentences_hold_words_of_the_lists_alone() -> None:
    words = {
        word for listed in (WHO, LOOKS, DOES, WHERE) for word in listed.replace("\n", "").replace("/", " ").split()
    }
    sentences = made_up(300)
    assert {word for sentence in sentences for word in tokenize(sentence)} <= words | {"is", "are", "."}
    assert all(len(tokenize(sentence)) >= 3 for sentence in sentences)
    assert any(sentence.startswith("two dogs are") for sentence in made_up(2000))
    assert not any(sentence.startswith("two dogs is") for sentence in made_up(2000))
