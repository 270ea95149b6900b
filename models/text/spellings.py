"""Spellings of English that rules alone judge wrongly, in two lists beside this file.

right_words.txt.xz has rare words that are right as they are written, although the lexicon would take them for a
misspelt common word or for keyboard noise; models/conversion/right_words.py makes it. misspelt.txt has misspelt words
that people write often, each with the word that is meant: those that the lexicon's rules do not reach, that are too
short for them, or that captions hold so often that they count as known.
"""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from models.compressed_files import stored_text

RIGHT_FILE, MISSPELT_FILE = (Path(__file__).with_name(name) for name in ("right_words.txt", "misspelt.txt"))
ENCODER = Path(__file__).parent.parent / "weights" / "sentence-encoder"
CAPTION_WORDS_FILE, PIECES_FILE = ENCODER / "words.txt", ENCODER / "vocab.txt"


@lru_cache
def words_of_captions() -> frozenset[str]:
    """Words of English captions, which the shipped sentence encoder knows first of all."""
    return frozenset(stored_text(CAPTION_WORDS_FILE).decode().split())


@lru_cache
def words_of_english_texts() -> frozenset[str]:
    """Words that English texts contain, whether often or rarely; some are names, or of other languages."""
    pieces = stored_text(PIECES_FILE).decode().split()
    return words_of_captions() | right_words() | {piece for piece in pieces if piece.isalpha()}


@lru_cache
def right_words() -> frozenset[str]:
    """Rare words that are right as they are written."""
    return frozenset(stored_text(RIGHT_FILE).decode().split())


@lru_cache
def misspelt_words() -> Mapping[str, str]:
    """Misspelt word -> the word that is meant."""
    return MappingProxyType(dict(line.split() for line in stored_text(MISSPELT_FILE).decode().splitlines()))
