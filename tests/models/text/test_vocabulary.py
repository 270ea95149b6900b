"""Tokens and ids as the published models count them."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from models.text.vocabulary import SPECIALS, Vocabulary, tokenize

SMALL = Vocabulary((*SPECIALS, "a", "dog", "n't", "'s"))


def test_words_split_as_treebank_does_and_only_ascii_is_lowered() -> None:
    assert tokenize("A dog doesn't see É's ball.") == ["a", "dog", "does", "n't", "see", "É", "'s", "ball", "."]


def test_ids_stand_between_start_and_end_and_padding_is_masked() -> None:
    tokens = SMALL.encode(["a dog", "A purple dog isn't"])
    assert tokens.ids.tolist() == [[1, 4, 5, 2, 0, 0, 0], [1, 4, 3, 5, 3, 6, 2]]
    assert tokens.mask.sum(1).tolist() == [4, 7]


def test_unknown_words_are_named_once() -> None:
    assert SMALL.unknown_words("purple dog purple cat") == ["purple", "cat"]


def test_rare_words_are_left_out_and_ids_go_by_frequency() -> None:
    counted = Vocabulary.from_captions(["a dog a dog a", "a cat"], min_count=2)
    assert counted.words == (*SPECIALS, "a", "dog")


@pytest.mark.parametrize("sentence", ["", "   ", "\n\t"])
def test_no_word_no_caption(sentence: str) -> None:
    with pytest.raises(ValueError, match="empty caption"):
        SMALL.encode([sentence])


@given(st.text(min_size=1))
def test_any_text_becomes_ids_or_is_refused(text: str) -> None:
    try:
        words = tokenize(text)
    except ValueError:
        assert not text.strip()
        return
    tokens = SMALL.encode([text])
    assert tokens.ids.shape == (1, len(words) + 2)
    assert tokens.mask.all()


def test_a_file_comes_back_as_it_was(tmp_path: Path) -> None:
    SMALL.save(tmp_path / "v.json")
    assert Vocabulary.load(tmp_path / "v.json") == SMALL


def test_a_gap_in_the_ids_is_refused(tmp_path: Path) -> None:
    (tmp_path / "v.json").write_text(json.dumps({"word2idx": {"<pad>": 0, "<start>": 2}}))
    with pytest.raises(ValueError, match="without a gap"):
        Vocabulary.load(tmp_path / "v.json")


@pytest.mark.realdata
def test_the_authors_vocabulary_and_ids(data_dir: Path) -> None:
    vocabulary = Vocabulary.load(data_dir / "scan-precomp-text" / "vocab" / "f30k_precomp_vocab.json")
    assert len(vocabulary) == 8481
    parity = data_dir.parent / "parity"
    expected = json.loads((parity / "token_ids.json").read_text())
    captions = (parity / "captions.txt").read_text().splitlines()
    tokens = vocabulary.encode(captions)
    assert [row[mask].tolist() for row, mask in zip(tokens.ids, tokens.mask, strict=True)] == expected
    assert tokens.ids.dtype == torch.int64


def test_near_words_stand_for_unknown_ones_and_misspelt_ones_for_either() -> None:
    vocabulary = Vocabulary((*SPECIALS, "turquoise", "zebra", "horse"), {"stallion": "horse"})
    for written, read in (
        ("zebra", "zebra"),
        ("stallion", "horse"),
        ("stalliion", "horse"),
        ("turqoise", "turquoise"),
        ("umbrella", "<unk>"),
    ):
        assert vocabulary.read_as(written) == read
        assert vocabulary.encode([written]).ids[0, 1] == vocabulary.ids[read]
    assert vocabulary.unknown_words("stallion zebra stalliion") == ["stallion", "stalliion"]


def test_without_near_words_what_is_unknown_stays_so() -> None:
    assert SMALL.read_as("dogs") == "<unk>"


def test_near_words_come_back_and_must_have_an_id(tmp_path: Path) -> None:
    vocabulary = Vocabulary((*SPECIALS, "horse"), {"stallion": "horse"})
    vocabulary.save(tmp_path / "v.json")
    assert Vocabulary.load(tmp_path / "v.json") == vocabulary
    with pytest.raises(ValueError, match="no id: horse"):
        Vocabulary((*SPECIALS, "dog"), {"stallion": "horse"})


@pytest.mark.parametrize(
    "changed",
    [
        {"word2idx": ["a"]},
        {"word2idx": {"a": 0, "b": "1"}},
        {"word2idx": {"a": 0, "b": []}},
        {"near": ["a"]},
        {"near": {"x": 1}},
    ],
)
def test_a_file_of_another_layout_is_refused(changed: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "v.json").write_text(json.dumps({"word2idx": SMALL.ids, **changed}))
    with pytest.raises(ValueError, match=r"v\.json"):
        Vocabulary.load(tmp_path / "v.json")
