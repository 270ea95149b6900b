"""The language of a question, guessed from its words and letters; models read English only."""

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
SURE = 3  # function words, or two nouns, that prove the language of a question
ENOUGH = 2  # function words, or one noun, that make a language likely
LEAST_SHARE = 1 / 3  # of the words, so that a foreign film title does not make an English sentence foreign
LEAST_WORDS = 3  # two words with foreign letters in a question shorter than this may be a name


class _Guess(NamedTuple):
    """A language, and how many of its function words (`short`) and `nouns` a question has."""

    language: str
    short: float
    nouns: int

    @property
    def weight(self) -> float:
        return self.short + 2 * self.nouns

    def unexplained(self, no_english: Collection[str]) -> set[str]:
        """The words of `no_english` that are not known words of this language either."""
        known = WORDS_OF_LANGUAGE.get(self.language, frozenset()) | NOUNS_OF_LANGUAGE.get(self.language, frozenset())
        return {word.lower() for word in no_english} - known


def language_of(query: str, no_english: Collection[str] = ()) -> str | None:
    """The language that a question seems to be in; None where that is English or cannot be guessed.

    The evidence is its letters or, where it has no English function word, one noun of the language, two of its function
    words, or one of these beside a word that is not English. `no_english` are the question's words that models do not
    know as they are written.
    """
    guess = _guess(query)
    return guess.language if guess.weight >= (1 if guess.unexplained(no_english) else ENOUGH) else None


def is_in_another_language(query: str, no_english: Collection[str] = ()) -> bool:
    """Whether a question is surely not in English, rather than holding a borrowed expression ("la vie en rose") or the
    name of a place or a person."""
    guess = _guess(query)
    if guess.short >= SURE or guess.nouns >= 2:
        return True
    return bool(guess.nouns and (guess.short >= 2 or (guess.short and guess.unexplained(no_english))))


def _nouns_among(words: frozenset[str], language: str) -> frozenset[str]:
    """The language's nouns; those that may be names count only where all of the words are of the language."""
    every = NOUNS_OF_LANGUAGE[language] | PERHAPS_NAMES_OF_LANGUAGE.get(language, frozenset())
    return every if words <= every | WORDS_OF_LANGUAGE[language] else NOUNS_OF_LANGUAGE[language]


def _guess(query: str) -> _Guess:
    """The likeliest language of a question; English where it has an English function word, or too few words that point
    to another language."""
    letters = [letter for letter in query if letter.isalpha()]
    foreign = [
        letter for letter in letters if not letter.isascii() and not unicodedata.name(letter, "").startswith("LATIN")
    ]
    if len(foreign) > len(letters) / 2:
        return _Guess(ANOTHER, math.inf, 0)
    words = frozenset(re.findall(r"[\w'-]+", query.lower()))
    if words & WORDS_OF_LANGUAGE["English"]:
        return _Guess("English", 0, 0)
    guesses = [
        _Guess(language, len(words & WORDS_OF_LANGUAGE[language]), len(words & _nouns_among(words, language)))
        for language in NOUNS_OF_LANGUAGE
    ]
    best, second = sorted(guesses, key=lambda guess: guess.weight, reverse=True)[:2]
    language = best.language if best.weight > second.weight else ANOTHER
    if best.short + best.nouns < LEAST_SHARE * len(words):
        best = _Guess("English", 0, 0)
    odd = sum(any(letter in FOREIGN_LETTERS for letter in word) for word in words)
    if odd and (best.weight or (odd > 1 and len(words) >= LEAST_WORDS)):  # otherwise it may be somebody's name
        return _Guess(language, max(best.short, ENOUGH), best.nouns)
    return best._replace(language=language) if best.weight else best
