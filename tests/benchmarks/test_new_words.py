"""Captions with words that no training caption holds, and their recalls beside the others'."""

import numpy as np
import pytest

from benchmarks.new_words import report_of, with_new_word, words_of
from models.text.vocabulary import Vocabulary

READER = Vocabulary.from_captions(["a dog"])


def test_a_word_is_new_where_no_training_caption_holds_it() -> None:
    known = words_of(READER, ["A dog runs .", "two red balls"])
    captions = ["two dog runs", "a red cat", "Balls", "a ball"]
    assert with_new_word(READER, captions, known).tolist() == [False, True, False, True]


def test_both_kinds_are_told_apart() -> None:
    report = report_of(np.array([0, 20, 3, 9, 30, 2]), np.array([True, True, False, False, False, False]))
    assert report["with a new word"]["captions"] == 2
    assert report["with a new word"]["r10"] == pytest.approx(50)
    assert report["others"]["r10"] == pytest.approx(75)
    assert report["ratio of R@10"] == pytest.approx(2 / 3)
