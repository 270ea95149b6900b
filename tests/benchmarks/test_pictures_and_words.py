"""Questions of a picture and a word, and what an answer to one is worth, against plain loops."""

import torch

from benchmarks.pictures_and_words import EACH, questions_of, words_of_captions


def test_words_are_those_that_two_captions_of_some_pictures_hold() -> None:
    some = [["A dog and a Ball", "a dog, with a ball!"], ["a dog", "a cat"]]
    rest = [["the sea", "the sea"] for _ in range(98)]
    words, shown, told = words_of_captions([*some, *some[:1], *some[:1], *rest])
    assert words == ("ball", "dog")  # the sea is in too many, the cat in one caption alone, "the" names nothing
    assert shown[:, :4].tolist() == [[True, False, True, True], [True, False, True, True]]
    assert told[:, :2].tolist() == [[True, False], [True, True]]


def test_no_picture_is_asked_with_for_a_word_of_its_captions() -> None:
    told = torch.rand(3, 200, generator=torch.Generator().manual_seed(0)) < 0.8
    told[2] = torch.arange(200) > 4
    asked = questions_of(("a", "b", "c"), told)
    pairs = list(zip(asked.words.tolist(), asked.pictures.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)
    assert not any(told[word, picture] for word, picture in pairs)
    assert [asked.words.tolist().count(word) for word in range(3)] == [
        min(EACH, int((~told[0]).sum())),
        min(EACH, int((~told[1]).sum())),
        5,
    ]
