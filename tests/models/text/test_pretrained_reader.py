"""Sentences as a pretrained encoder reads them: words, their states, misspelt and unknown ones; the shipped encoder."""

from copy import deepcopy
from pathlib import Path

import pytest
import torch

from models.compressed_files import stored_text
from models.conversion.sentence_encoder import convert_sentence_encoder
from models.text.pretrained_reader import (
    SENTENCE_ENCODER,
    PretrainedReader,
    load_pretrained_reader,
    shipped_reader,
)
from models.text.reader import SentenceReader
from models.text.vocabulary import SPECIALS, Vocabulary
from tests.support.power_cut import Disk
from tests.support.small_bert import WIDTH, small_reader, write_published


@pytest.fixture
def reader(tmp_path: Path) -> PretrainedReader:
    return small_reader(tmp_path, ["dogs", "horse", "grass", "red"])


def test_both_readers_are_readers(reader: PretrainedReader) -> None:
    for each in (reader, Vocabulary((*SPECIALS, "a"))):
        assert isinstance(each, SentenceReader)
        with pytest.raises(ValueError, match="empty caption"):
            each.encode(["a", "  "])


def test_words_are_shown_as_they_are_written(reader: PretrainedReader) -> None:
    assert reader.tokens("A hrose, running!") == ["<start>", "a", "hrose", ",", "running", "!", "<end>"]
    assert reader.corrections("A hrose, running!") == {"hrose": "horse"}


def test_a_words_state_is_the_mean_of_its_pieces(reader: PretrainedReader) -> None:
    words = reader.encode(["a running dog"])
    encoded = reader.encoder.tokenizer.encode("a running dog")
    assert encoded.tokens == ["[CLS]", "a", "run", "##ning", "dog", "[SEP]"]
    (states,) = reader.encoder(torch.tensor([encoded.ids]), torch.ones(1, 6, dtype=torch.bool))
    expected = torch.stack([states[0], states[1], states[2:4].mean(0), states[4], states[5]])
    torch.testing.assert_close(words.vectors[0], expected, atol=1e-6, rtol=0)
    assert not words.vectors.requires_grad


def test_pieces_are_those_that_are_encoded(reader: PretrainedReader) -> None:
    assert reader.num_pieces(reader.tokens("a running dog")) == 6
    assert reader.num_pieces(["<start>", "a-running", "x", "<end>"]) == 7  # as another reader may split it
    words = Vocabulary((*SPECIALS, "a"))
    assert words.num_pieces(words.tokens("a running dog")) == words.encode(["a running dog"]).ids.shape[1] == 5


def test_a_sentence_has_the_same_states_whatever_stands_beside_it(reader: PretrainedReader) -> None:
    sentences = ["a dog", "a running cat runs", "dogs"]
    together = reader.encode(sentences)
    assert together.mask.sum(1).tolist() == [4, 6, 3]
    assert not together.vectors[~together.mask].any()
    for row, sentence in enumerate(sentences):
        alone = reader.encode([sentence])
        torch.testing.assert_close(together.vectors[row][together.mask[row]], alone.vectors[0], atol=1e-6, rtol=0)
    assert reader.encode([]).vectors.shape == (0, 0, WIDTH)


def test_no_word_of_a_long_sentence_is_lost(reader: PretrainedReader) -> None:
    sentence = "a running dog " * 20 + "a cat"
    words = reader.encode([sentence])
    assert len(words.vectors[0]) == len(reader.tokens(sentence)) == 64
    first = reader.encode(["a running dog " * 7 + "a"])  # 29 pieces, and the next word has 2
    torch.testing.assert_close(words.vectors[0, :23], first.vectors[0, :23], atol=1e-6, rtol=0)
    assert torch.isfinite(words.vectors).all()


def test_a_misspelt_word_is_read_as_the_right_one(reader: PretrainedReader) -> None:
    torch.testing.assert_close(reader.encode(["a hrose"]).vectors, reader.encode(["a horse"]).vectors)
    assert reader.unknown_words("a hrose ☃ ☃ рыба") == ["☃", "рыба"]


def test_copies_of_a_matcher_share_the_reader(reader: PretrainedReader) -> None:
    assert deepcopy(reader) is reader
    assert not any(weight.requires_grad for weight in reader.encoder.parameters())


def test_an_encoder_is_converted_and_loaded(tmp_path: Path) -> None:
    published = write_published(tmp_path / "published")
    digest = convert_sentence_encoder(published, ["a dog runs", "the dog"] * 3, ["fish"], tmp_path / "out")
    reader = load_pretrained_reader(tmp_path / "out")
    assert reader.identity == digest
    assert stored_text(tmp_path / "out" / "words.txt").decode().split() == ["dog", "a", "runs", "the", "fish"]
    exact = load_full(published)
    shipped, full = (each.encoder.embed(["a dog runs", "cat"]) for each in (reader, exact))
    assert (shipped * full).sum(1).min() > 0.9
    for name in ("config.json", "model.safetensors", "vocab.txt.xz", "words.txt.xz"):
        content = bytearray((tmp_path / "out" / name).read_bytes())
        content[-3] ^= 1
        (tmp_path / "out" / name).write_bytes(content)
        with pytest.raises(ValueError, match="damaged"):
            load_pretrained_reader(tmp_path / "out")
        content[-3] ^= 1
        (tmp_path / "out" / name).write_bytes(content)


def test_a_converted_encoder_outlives_a_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published, disk = write_published(tmp_path / "published"), Disk(tmp_path / "disk", monkeypatch)
    digest = convert_sentence_encoder(published, ["a dog"], ["fish"], disk.folder)
    assert load_pretrained_reader(disk.left(tmp_path / "left")).identity == digest


def load_full(folder: Path) -> PretrainedReader:
    from models.text.bert_encoder import load_bert_encoder  # noqa: PLC0415

    return PretrainedReader(load_bert_encoder(folder))


def test_the_shipped_reader_knows_english() -> None:
    reader = shipped_reader()
    assert shipped_reader() is reader
    sentence = "A man rides a bycicle past an elefant with an umbrela, asdfgh qwrtz xkcdvb."
    assert reader.corrections(sentence) == {"bycicle": "bicycle", "elefant": "elephant", "umbrela": "umbrella"}
    assert reader.unknown_words(sentence) == ["asdfgh", "qwrtz", "xkcdvb"]
    for text in ("A labradoodle wades through mulch.", "two kayakers don't wait", "a sousaphone and a theremin"):
        assert reader.unknown_words(text) == []
        assert reader.corrections(text) == {}
    vectors = reader.encoder.embed(["a dog runs through grass", "a puppy running on a lawn", "a plate of pasta"])
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.3
    assert sum(path.stat().st_size for path in SENTENCE_ENCODER.iterdir()) < 16.1e6


def test_tokens_that_another_reader_split_are_words_all_the_same(reader: PretrainedReader) -> None:
    own = reader.encode(["a running dog", "dogs!"])
    rows = [reader.tokens("a running dog"), reader.tokens("dogs!")]
    again = reader.encode_tokens(rows)
    assert torch.equal(again.mask, own.mask)
    torch.testing.assert_close(again.vectors, own.vectors, atol=1e-6, rtol=0)
    joined = reader.encode_tokens([["<start>", "A", "running-dog", "\u200b", "<end>"]])
    assert joined.vectors.shape == (1, 5, WIDTH)
    apart = reader.encode(["a running - dog"]).vectors[0]
    assert joined.vectors.isfinite().all()
    assert not torch.equal(joined.vectors[0, 2], apart[2])


def test_ids_of_tokens_that_another_reader_split() -> None:
    vocabulary = Vocabulary((*SPECIALS, "a", "dog"))
    assert vocabulary.encode_tokens([["<start>", "a", "cat", "<end>"], ["<start>", "dog", "<end>"]]).ids.tolist() == [
        [1, 4, 3, 2],
        [1, 5, 2, 0],
    ]
