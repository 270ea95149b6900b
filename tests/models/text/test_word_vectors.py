"""Vectors read from text, given to a matcher's words, and what unknown words are read as."""

from pathlib import Path

import pytest
import torch

from models.matching.checkpoint import load_matcher, new_matcher, save_matcher
from models.matching.matcher import Matcher
from models.matching.stage_one import StageOneConfig
from models.rerankers.encoders import EncoderConfig
from models.text.vocabulary import SPECIALS, Vocabulary
from models.text.word_vectors import WordVectors, read_vectors, start_from

GLOVE = "dog 1 0 0\n. . . 9 9 9\ncat 0 1 0.5\ndog 7 7 7\npuppy 2 0.2 0\nsky 0 0 -1\n"


def matcher() -> Matcher:
    torch.manual_seed(0)
    encoders = EncoderConfig(num_words=7, feature_dim=3, word_dim=3, width=4)
    vocabulary = Vocabulary((*SPECIALS, "dog", "cat", "zebra"))
    return new_matcher("scan-t2i-avg", encoders, StageOneConfig(width=4), vocabulary, "x")


@pytest.mark.parametrize("head", ["", "6 3\n"])
def test_wanted_words_are_read_with_or_without_a_line_of_counts(tmp_path: Path, head: str) -> None:
    (tmp_path / "v.txt").write_text(head + GLOVE)
    read = read_vectors(tmp_path / "v.txt", 3, {"dog", "cat", "lion", "."})
    assert read.words == ("dog", "cat")
    assert read.vectors.tolist() == [[1, 0, 0], [0, 1, 0.5]]
    assert read_vectors(tmp_path / "v.txt", 3, {"sky"}, frequent=1).words == ("dog", "sky")


def test_what_is_saved_is_read_again(tmp_path: Path) -> None:
    vectors = torch.randn(2, 3)
    WordVectors(["dog", "n't"], vectors).save(tmp_path / "v.txt")
    read = read_vectors(tmp_path / "v.txt", 3, {"dog", "n't"})
    torch.testing.assert_close(read.vectors, vectors, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (GLOVE, "vectors have 3 numbers, the model's words have 4"),
        ("9 5\ndog 1 2 3 4 5\n", "vectors have 5 numbers"),
        ("", "vectors have 0 numbers"),
        ("dog 1 2 3 4\ncat 1 2 3\n", "has 3 numbers, not 4"),
        ("dog 1 2 3 x\n", "is not a word and 4 numbers"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "v.txt").write_text(text)
    with pytest.raises(ValueError, match=complaint):
        read_vectors(tmp_path / "v.txt", 4, {"dog", "cat"})


def test_found_words_start_there_and_the_others_where_they_were(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text(GLOVE)
    model, before = matcher(), matcher().reranker.get_parameter("sentence_encoder.embed.weight")
    assert start_from(model, tmp_path / "v.txt") == 2
    embedded = model.reranker.get_parameter("sentence_encoder.embed.weight")
    assert embedded[4:6].tolist() == [[1, 0, 0], [0, 1, 0.5]]
    assert torch.equal(embedded[[0, 1, 2, 3, 6]], before[[0, 1, 2, 3, 6]])
    assert not model.vocabulary.near


def test_a_file_that_knows_none_of_the_words_is_refused(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("Hund 1 2 3\n")
    with pytest.raises(ValueError, match="none of the 7 words"):
        start_from(matcher(), tmp_path / "v.txt")


def test_unknown_words_are_read_as_near_ones_also_from_disk(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text(GLOVE)
    model = matcher()
    start_from(model, tmp_path / "v.txt", near=0.9)
    assert model.vocabulary.near == {"puppy": "dog"}  # and nothing is near enough to the sky
    save_matcher(model, tmp_path / "saved")
    for held in (model, load_matcher(tmp_path / "saved")):
        assert held.tokenize(["puppy sky dog"]).ids.tolist() == [[1, 4, 3, 4, 2]]
        assert held.unknown_words("puppy sky dog") == ["puppy", "sky"]
        assert held.read_as("puppy sky dog") == {"puppy": "dog", "sky": "<unk>"}
