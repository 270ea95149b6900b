"""Character n-grams: vectors of words never seen, and the nearest spelling."""

from pathlib import Path

import torch
from hypothesis import given
from hypothesis import strategies as st

from models.text.char_ngrams import RIDGE_PENALTY, SpellingIndex, SubwordVectors, bucket_matrix, char_ngrams

WORDS = ["jumping", "running", "jumps", "runs", "dogs", "dog"]


def test_ngrams_are_runs_of_three_to_six_letters_with_the_ends_marked() -> None:
    assert char_ngrams("dogs") == ["<do", "dog", "ogs", "gs>", "<dog", "dogs", "ogs>", "<dogs", "dogs>", "<dogs>"]
    assert char_ngrams("a") == ["<a>"]


def test_buckets_are_the_ridge_regression_of_vectors_on_ngrams() -> None:
    vectors, weights = torch.randn(len(WORDS), 4), torch.tensor([1.0, 2, 3, 4, 5, 6])
    fitted = SubwordVectors.fit(WORDS, vectors, weights, num_buckets=64)
    present, penalty = bucket_matrix(WORDS, 64).to_dense(), weights / (RIDGE_PENALTY * weights.mean())
    # The minimum of sum_w penalty_w |x_w G - v_w|^2 + |G|^2, by its normal equations.
    normal = present.T @ torch.diag(penalty)
    expected = torch.linalg.solve(normal @ present + torch.eye(64), normal @ vectors)
    torch.testing.assert_close(fitted.buckets, expected, atol=1e-4, rtol=1e-4)


def test_a_word_never_seen_lands_beside_those_that_share_its_ngrams() -> None:
    action, animal = torch.tensor([1.0, 0]), torch.tensor([0, 1.0])
    fitted = SubwordVectors.fit(WORDS, torch.stack([action] * 4 + [animal] * 2), torch.ones(6))
    jumped, doggy = fitted.vectors(["jumped", "doggy"])
    assert jumped[0] > 2 * jumped[1].abs()
    assert doggy[1] > 2 * doggy[0].abs()


def test_saved_vectors_come_back_in_half_precision(tmp_path: Path) -> None:
    fitted = SubwordVectors.fit(WORDS, torch.randn(len(WORDS), 4), torch.ones(len(WORDS)), num_buckets=64)
    fitted.save(tmp_path / "words.parts")
    torch.testing.assert_close(
        SubwordVectors.load(tmp_path / "words.parts").vectors(["doggy"]),
        fitted.vectors(["doggy"]),
        atol=1e-2,
        rtol=1e-2,
    )


def test_a_misspelt_word_is_nearest_to_what_was_meant() -> None:
    spelling = SpellingIndex(["turquoise", "frisbee", "jumping", "jumps"])
    for written, meant in (("turquiose", "turquoise"), ("frisbeen", "frisbee"), ("jumpping", "jumping")):
        assert spelling.nearest(written)[0] == meant
    assert spelling.nearest("xyz")[1] == 0


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=12))
def test_a_word_of_the_list_is_most_like_itself(word: str) -> None:
    nearest, alike = SpellingIndex([*WORDS, word]).nearest(word)
    assert nearest == word
    assert abs(alike - 1) < 1e-5
