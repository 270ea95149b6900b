"""Word vectors read from text files."""

from pathlib import Path

import pytest
import torch

from models.text.word_vectors import WordVectors, read_word_vectors

GLOVE = "dog 1 0 0\n. . . 9 9 9\ncat 0 1 0.5\ndog 7 7 7\npuppy 2 0.2 0\nsky 0 0 -1\n"


@pytest.mark.parametrize("head", ["", "6 3\n"])
def test_wanted_words_are_read_with_or_without_a_line_of_counts(tmp_path: Path, head: str) -> None:
    (tmp_path / "v.txt").write_text(head + GLOVE)
    read = read_word_vectors(tmp_path / "v.txt", 3, {"dog", "cat", "lion", "."})
    assert read.words == ("dog", "cat")
    assert read.vectors.tolist() == [[1, 0, 0], [0, 1, 0.5]]
    assert read_word_vectors(tmp_path / "v.txt", 3, {"sky"}, num_frequent=1).words == ("dog", "sky")


def test_what_is_saved_is_read_again(tmp_path: Path) -> None:
    vectors = torch.randn(2, 3)
    WordVectors(["dog", "n't"], vectors).save(tmp_path / "v.txt")
    read = read_word_vectors(tmp_path / "v.txt", 3, {"dog", "n't"})
    torch.testing.assert_close(read.vectors, vectors, rtol=1e-4, atol=1e-4)
    (tmp_path / "w.txt").mkdir()  # which is in the way of writing
    with pytest.raises(OSError, match=r"w\.txt"):
        WordVectors(["dog"], vectors[:1]).save(tmp_path / "w.txt")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (GLOVE, "vectors have 3 numbers, the model's words have 4"),
        ("9 5\ndog 1 2 3 4 5\n", "vectors have 5 numbers"),
        ("", "vectors have 0 numbers"),
        ("dog 1 2 3 4\ncat 1 2 3\n", "has 3 numbers, not 4"),
        ("dog 1 2 3 4\ncat 1 2 nan 4\n", "v.txt:2: the vector of cat holds numbers that are not finite"),
        ("2 4\ndog 1 2 3 1e39\n", "v.txt:2: the vector of dog holds numbers that are not finite"),
        ("3 4\ndog 1 2 3 4\ncat 1 2 3 4\n", "v.txt has 2 words where its first line says 3: it was cut short"),
        ("dog 1 2 3 x\n", "is not a word and 4 numbers"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "v.txt").write_text(text)
    with pytest.raises(ValueError, match=complaint):
        read_word_vectors(tmp_path / "v.txt", 4, {"dog", "cat"})
