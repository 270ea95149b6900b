"""The lists of spellings: what they hold, and that the shipped lexicon reads by them."""

from pathlib import Path

import pytest

from models.compressed_files import stored_text
from models.conversion.right_words import MORE, listed_words, misjudged
from models.text.lexicon import LETTERS, Lexicon
from models.text.pretrained_reader import shipped_reader
from models.text.spellings import MISSPELT_FILE, RIGHT_FILE, misspelt_words, right_words


@pytest.mark.parametrize("path", [RIGHT_FILE, MISSPELT_FILE], ids=lambda path: path.stem)
def test_a_list_is_in_order_and_has_words_of_letters_once(path: Path) -> None:
    lines = stored_text(path).decode().splitlines()
    assert lines == sorted(set(lines))
    assert all(LETTERS.fullmatch(word) for line in lines for word in line.split())


def test_the_lists_do_not_contradict_each_other_or_the_lexicon() -> None:
    lexicon = shipped_reader().lexicon
    assert not right_words() & misspelt_words().keys()
    assert [word for word in misspelt_words().values() if lexicon.correction(word) or lexicon.is_noise(word)] == []
    by_rules = Lexicon(lexicon.words, lexicon.num_common)
    assert misjudged(by_rules, right_words()) == sorted(right_words())  # none is there for nothing
    assert [word for word in MORE.split() if lexicon.correction(word) or lexicon.is_noise(word)] == []


@pytest.mark.parametrize("word", ["scone", "tart", "clam", "buoy", "trowel", "dont", "haus", "hund", "blume"])
def test_rare_words_are_read_as_they_are(word: str) -> None:
    assert shipped_reader().corrections(word) == {}
    assert shipped_reader().unknown_words(word) == []


@pytest.mark.parametrize(("word", "read"), [("restaraunt", "restaurant"), ("teh", "the"), ("soooo", "so")])
def test_frequent_misspellings_are_read_as_what_is_meant(word: str, read: str) -> None:
    assert shipped_reader().corrections(word) == {word: read}


def test_lists_of_words_are_read_in_small_letters_without_what_is_no_word(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("Elbe\nscone's\nscone\n", "utf-8")
    (tmp_path / "b").write_text("arête\nclam\n", "utf-8")
    assert listed_words([tmp_path / "a", tmp_path / "b"]) == ["elbe", "scone", "clam"]
