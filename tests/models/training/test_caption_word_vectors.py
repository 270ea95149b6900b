"""Vectors learnt from captions: the formula in plain loops, and words that stand in the same places."""

import math
from collections import defaultdict

import pytest
import torch

from models.training.caption_word_vectors import learn_word_vectors, nearest_words, positive_pmi

CAPTIONS = [f"a {animal} {verb} on the {place}" for animal in ("dog", "puppy", "cat") for verb in ("runs", "sleeps")
            for place in ("grass", "sofa")] * 2 + ["red kites fly high above tall trees"] * 2  # fmt: skip


def test_positive_pmi_is_the_formula() -> None:
    sentences = [["a", "dog", "on", "a", "sofa"], ["dog", "a", "?", "dog", "x", "y", "z", "sofa"]]
    words = ["a", "dog", "on", "sofa"]
    counts: dict[tuple[str, str], float] = defaultdict(float)
    for sentence in sentences:
        for i, first in enumerate(sentence):
            for j, second in enumerate(sentence):
                if i != j and abs(i - j) <= 5 and first in words and second in words:
                    counts[first, second] += (6 - abs(i - j)) / 5
    total = {word: sum(n for (first, _), n in counts.items() if first == word) for word in words}
    smooth = sum(n**0.75 for n in total.values())
    found = positive_pmi(sentences, words).to_dense()
    for i, first in enumerate(words):
        for j, second in enumerate(words):
            n = counts[first, second]
            expected = max(0.0, math.log(n * smooth / (total[first] * total[second] ** 0.75))) if n else 0.0
            assert found[i, j].item() == pytest.approx(expected, abs=1e-5)


def test_words_in_the_same_places_are_near_each_other_and_the_same_every_time() -> None:
    vectors, subwords = learn_word_vectors(CAPTIONS, dim=6)
    again, _ = learn_word_vectors(CAPTIONS, dim=6)
    assert torch.equal(vectors.vectors, again.vectors)
    torch.testing.assert_close(vectors.vectors.norm(dim=1), torch.ones(len(vectors.words)))
    assert nearest_words(vectors, subwords, "dog", 1)[0][0] in ("puppy", "cat")
    assert nearest_words(vectors, subwords, "kite", 1)[0][0] == "kites"  # which the captions do not hold


def test_more_numbers_than_words_are_refused() -> None:
    with pytest.raises(ValueError, match="as many words"):
        learn_word_vectors(CAPTIONS, dim=100)
