"""Questions of a picture and a word, and what an answer to one is worth, against plain loops."""

import math

import pytest
import torch

from benchmarks.pictures_and_words import CUTOFF, EACH, ndcg, questions_of, words_of_captions


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


def test_ndcg_is_that_of_a_plain_loop_without_the_picture_asked_with() -> None:
    draw = torch.Generator().manual_seed(1)
    scores, worth = torch.randn(4, 30, generator=draw), torch.rand(4, 30, generator=draw)
    own = torch.tensor([0, 7, 7, 29])
    found = ndcg(scores, worth, own)
    for question, mine in enumerate(own.tolist()):
        others = [picture for picture in range(30) if picture != mine]
        first = sorted(others, key=lambda picture: -float(scores[question, picture]))[:CUTOFF]
        best = sorted((float(worth[question, picture]) for picture in others), reverse=True)[:CUTOFF]
        gained = sum(float(worth[question, picture]) / math.log2(rank + 2) for rank, picture in enumerate(first))
        assert float(found[question]) == pytest.approx(
            gained / sum(value / math.log2(rank + 2) for rank, value in enumerate(best)), rel=1e-5
        )
