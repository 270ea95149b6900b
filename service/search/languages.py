"""The language that a question is in, as far as its words and letters tell it; models read English alone."""

import math
import re
import unicodedata
from collections.abc import Collection

from service.search.foreign_words import FOREIGN_LETTERS, FUNCTION_WORDS, NOUNS

ANOTHER = "another language than English"
WORDS_OF_LANGUAGE = {language: frozenset(words.split()) for language, words in FUNCTION_WORDS.items()}
NOUNS_OF_LANGUAGE = {language: frozenset(words.split()) for language, words in NOUNS.items()}
SURE = 3  # short words of a language, from which a question is in it for sure
ENOUGH = 2  # that it seems to be in it
LEAST_SHARE = 1 / 3  # of the words, so that a film's title in an English sentence is none


def language_of(query: str, no_english: Collection[str] = ()) -> str | None:
    """Another language than English that a question seems to be in, and None for English, and wherever it cannot be
    told.

    It is told by its letters, or by no English short word and a noun of it, or two or more of its short words, or one
    where another word is no English: `no_english` are those that models do not know as they are written.
    """
    language, weight = _language_and_weight(query)
    return language if weight >= (1 if _others(language, no_english) else ENOUGH) else None


def is_in_another_language(query: str, no_english: Collection[str] = ()) -> bool:
    """Whether a question is surely in another language than English, and no borrowed expression ("la vie en rose")."""
    language, weight = _language_and_weight(query)
    return weight >= (ENOUGH if _others(language, no_english) else SURE)


def _others(language: str, no_english: Collection[str]) -> set[str]:
    return {word.lower() for word in no_english} - WORDS_OF_LANGUAGE.get(language, frozenset())


def _language_and_weight(query: str) -> tuple[str, float]:
    """The language that a question is in sooner than in others, and how many of its short words it has, of which a noun
    counts two; none where an English one stands among them, or too few of all words are such."""
    letters = [letter for letter in query if letter.isalpha()]
    beyond_ascii = [letter for letter in letters if not letter.isascii()]
    foreign = [letter for letter in beyond_ascii if not unicodedata.name(letter, "").startswith("LATIN")]
    if len(foreign) > len(letters) / 2:
        return ANOTHER, math.inf
    words = set(re.findall(r"[\w'-]+", query.lower()))
    counts = {language: float(len(words & known)) for language, known in WORDS_OF_LANGUAGE.items()}
    if counts.pop("English"):
        return "English", 0
    for language, nouns in NOUNS_OF_LANGUAGE.items():
        counts[language] += 2 * len(words & nouns)
    best, second = sorted(counts, key=counts.__getitem__, reverse=True)[:2]
    weight = counts[best] if counts[best] >= LEAST_SHARE * len(words) else 0
    foreign_words = sum(any(letter in FOREIGN_LETTERS for letter in word) for word in words)
    if foreign_words > 1 or (foreign_words and weight):  # one word alone may be somebody's name
        weight = max(weight, ENOUGH)
    if not weight:
        return "English", 0
    return (best if counts[best] > counts[second] else ANOTHER), weight
