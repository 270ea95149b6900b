"""Word embeddings that start from a file, and what unknown words are read as."""

from pathlib import Path

import pytest
import torch

from models.batches import Tokens
from models.matching.checkpoint import load_matcher, new_matcher, save_matcher
from models.matching.single_matcher import SingleMatcher
from models.matching.stage_one import StageOneConfig
from models.rerankers.encoders import EncoderConfig
from models.text.vocabulary import SPECIALS, Vocabulary
from models.training.word_init import init_word_embeddings
from tests.models.text.test_word_vectors import GLOVE


def matcher() -> SingleMatcher:
    torch.manual_seed(0)
    encoders = EncoderConfig(num_words=7, feature_dim=3, word_dim=3, width=4)
    vocabulary = Vocabulary((*SPECIALS, "dog", "cat", "zebra"))
    return new_matcher("scan-t2i-avg", encoders, StageOneConfig(width=4), vocabulary, "x")


def test_found_words_start_there_and_the_others_where_they_were(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text(GLOVE)
    model, before = matcher(), matcher().reranker.get_parameter("sentence_encoder.embed.weight")
    assert init_word_embeddings(model, tmp_path / "v.txt") == 2
    embedded = model.reranker.get_parameter("sentence_encoder.embed.weight")
    assert embedded[4:6].tolist() == [[1, 0, 0], [0, 1, 0.5]]
    assert torch.equal(embedded[[0, 1, 2, 3, 6]], before[[0, 1, 2, 3, 6]])
    assert not model.vocabulary.near_words


def test_a_file_that_knows_none_of_the_words_is_refused(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("Hund 1 2 3\n")
    with pytest.raises(ValueError, match="none of the 7 words"):
        init_word_embeddings(matcher(), tmp_path / "v.txt")


def test_unknown_words_are_read_as_near_ones_also_from_disk(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text(GLOVE)
    model = matcher()
    init_word_embeddings(model, tmp_path / "v.txt", near=0.9)
    assert model.vocabulary.near_words == {"puppy": "dog"}  # and nothing is near enough to the sky
    save_matcher(model, tmp_path / "saved")
    for held in (model, load_matcher(tmp_path / "saved")):
        tokens = held.tokenize(["puppy sky dog"])
        assert isinstance(tokens, Tokens)
        assert tokens.ids.tolist() == [[1, 4, 3, 4, 2]]
        assert held.unknown_words("puppy sky dog") == ["puppy", "sky"]
        assert held.read_as("puppy sky dog") == {"puppy": "dog", "sky": "<unk>"}
