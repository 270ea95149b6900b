"""The language that a question is in, as far as its words and letters tell it; models read English alone."""

import math
import re
import unicodedata
from collections.abc import Collection
from typing import NamedTuple

from service.search.wording.foreign_words import FOREIGN_LETTERS, FUNCTION_WORDS, NOUNS, PERHAPS_NAMES

ANOTHER = "another language than English"
WORDS_OF_LANGUAGE = {language: frozenset(words.split()) for language, words in FUNCTION_WORDS.items()}
NOUNS_OF_LANGUAGE = {language: frozenset(words.split()) for language, words in NOUNS.items()}
PERHAPS_NAMES_OF_LANGUAGE = {language: frozenset(words.split()) for language, words in PERHAPS_NAMES.items()}
SURE = 3  # short words, from which a question is in a language for sure, as from two nouns
ENOUGH = 2  # short words, or one noun, from which it seems to be
LEAST_SHARE = 1 / 3  # of the words, so that a film's title in an English sentence is none
LEAST_WORDS = 3  # of which two with letters that English has not are no name


class _Told(NamedTuple):
    """A language, and how many `short` words and `nouns` of it a question has."""

    language: str
    short: float
    nouns: int

    @property
    def weight(self) -> float:
        return self.short + 2 * self.nouns

    def others(self, no_english: Collection[str]) -> set[str]:
        """Words that are no English, besides those of this language that are known."""
        known = WORDS_OF_LANGUAGE.get(self.language, frozenset()) | NOUNS_OF_LANGUAGE.get(self.language, frozenset())
        return {word.lower() for word in no_english} - known


def language_of(query: str, no_english: Collection[str] = ()) -> str | None:
    """The language that a question seems to be in, where that is another than English and can be told; else None.

    A question is of another language by its letters; or, where it has no English short word, by one noun of that
    language, by two of its short words, or by one of these beside a word that is no English. `no_english` are the
    question's words that models do not know as they are written.
    """
    told = _told(query)
    return told.language if told.weight >= (1 if told.others(no_english) else ENOUGH) else None


def is_in_another_language(query: str, no_english: Collection[str] = ()) -> bool:
    """Whether a question is surely in another language than English: no borrowed expression ("la vie en rose"), and no
    name of a place or a person."""
    told = _told(query)
    if told.short >= SURE or told.nouns >= 2:
        return True
    return bool(told.nouns and (told.short >= 2 or (told.short and told.others(no_english))))


def _nouns_among(words: frozenset[str], language: str) -> frozenset[str]:
    """The language's nouns, with those that may be names where all of the words are of the language."""
    every = NOUNS_OF_LANGUAGE[language] | PERHAPS_NAMES_OF_LANGUAGE.get(language, frozenset())
    return every if words <= every | WORDS_OF_LANGUAGE[language] else NOUNS_OF_LANGUAGE[language]


def _told(query: str) -> _Told:
    """The likeliest language of a question; English where it has an English short word, or too few of its words tell
    another language."""
    letters = [letter for letter in query if letter.isalpha()]
    foreign = [
        letter for letter in letters if not letter.isascii() and not unicodedata.name(letter, "").startswith("LATIN")
    ]
    if len(foreign) > len(letters) / 2:
        return _Told(ANOTHER, math.inf, 0)
    words = frozenset(re.findall(r"[\w'-]+", query.lower()))
    if words & WORDS_OF_LANGUAGE["English"]:
        return _Told("English", 0, 0)
    told = [
        _Told(language, len(words & WORDS_OF_LANGUAGE[language]), len(words & _nouns_among(words, language)))
        for language in NOUNS_OF_LANGUAGE
    ]
    best, second = sorted(told, key=lambda one: one.weight, reverse=True)[:2]
    language = best.language if best.weight > second.weight else ANOTHER
    if best.short + best.nouns < LEAST_SHARE * len(words):
        best = _Told("English", 0, 0)
    odd = sum(any(letter in FOREIGN_LETTERS for letter in word) for word in words)
    if odd and (best.weight or (odd > 1 and len(words) >= LEAST_WORDS)):  # else perhaps somebody's name
        return _Told(language, max(best.short, ENOUGH), best.nouns)
    return best._replace(language=language) if best.weight else best
