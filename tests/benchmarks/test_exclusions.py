"""The questions of the benchmark and its shares, on pictures that are told by hand."""

import numpy as np

from benchmarks.exclusions import NOUNS, questions_among, shares_of, shown


def test_a_picture_shows_what_one_of_its_captions_names() -> None:
    shows = shown([["Two men walk.", "A dog, too"], ["snowy"]])
    named = [[noun for noun, is_shown in zip(NOUNS, row, strict=True) if is_shown] for row in shows]
    assert named == [["a man", "a dog", "people"], ["snow"]]


def test_pairs_are_asked_for_that_pictures_show_together_and_one_of_them_alone() -> None:
    both, first, second = [True, True], [True, False], [False, True]
    assert questions_among(np.array([both] * 5 + [first] * 5 + [second] * 4)) == [(0, 1)]
    assert questions_among(np.array([both] * 4 + [first] * 5 + [second] * 5)) == []


def test_shares_are_of_the_first_ten() -> None:
    shows = np.array([[True, False]] * 6 + [[True, True]] * 3 + [[False, True]] * 4)
    assert shares_of({(0, 1): range(13)}, shows) == ["0.60", "0.90", "0.40"]
    assert shares_of({(0, 1): range(12, -1, -1)}, shows) == ["0.30", "0.60", "0.70"]
