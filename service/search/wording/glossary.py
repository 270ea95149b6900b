"""The glossary: words of other languages that photographs are searched with, and their English translations.

Each line of glossary.txt has an English word or expression and its translations into each of LANGUAGES, separated by
semicolons; lines in brackets give the kind of the words below them. A question mark after a word says that it is no
evidence of its language, since English texts use it too or it may be a name.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from models.text.spellings import words_of_english_texts

FILE = Path(__file__).with_name("glossary.txt")
LANGUAGES = ("German", "French", "Spanish", "Italian")  # in the order of the columns
# Endings of inflected words, each with the ending of the form in the glossary.
ENDINGS: Mapping[str, Sequence[tuple[str, str]]] = {
    "German": [(ending, "") for ending in ("e", "n", "en", "er", "es", "em", "s")],
    "French": [("euses", "eux"), ("euse", "eux"), *((ending, "") for ending in ("s", "e", "es", "x"))],
    "Spanish": [("s", ""), ("es", ""), ("a", "o"), ("as", "o")],
    "Italian": [
        *(("h" + plural, vowel) for plural in "ie" for vowel in "oa"),
        *((ending, vowel) for ending in "aeio" for vowel in "aeio" if ending != vowel),
    ],
}
COMPOUNDING = "German"  # joins words, perhaps with one of JOINTS between them
JOINTS = ("", "s", "n", "es", "en")
SHORTEST_PART = 3
NOUNS_BEFORE_ADJECTIVES = frozenset({"French", "Spanish", "Italian"})

WordKind = Literal["nouns", "adjectives", "verbs", "function"]
KINDS: Mapping[str, WordKind] = {f"[{kind}]": kind for kind in get_args(WordKind)}


@dataclass(frozen=True)
class GlossaryEntry:
    """The English for a word, its kind, and whether the word is evidence of its language."""

    english: str
    kind: WordKind
    telling: bool


class Glossary:
    """The words of one language."""

    def __init__(self, language: str, entries: Mapping[str, GlossaryEntry]) -> None:
        self.language, self.entries = language, entries

    def find(self, word: str) -> GlossaryEntry | None:
        """The entry of a lower-case word, of its uninflected form, or of the two words that it is composed of."""
        if word in self.entries:
            return self.entries[word]
        is_english = word in words_of_english_texts()
        for form in self._forms(word):
            if form in self.entries:  # "giraffe" is the plural of an Italian word, but no evidence of Italian
                return replace(self.entries[form], telling=False) if is_english else self.entries[form]
        return self._compound(word) if self.language == COMPOUNDING and not is_english else None

    def _forms(self, word: str) -> Iterator[str]:
        yield word
        for ending, base in ENDINGS[self.language]:
            if word.endswith(ending) and len(word) - len(ending) >= SHORTEST_PART - 1:
                yield word.removesuffix(ending) + base

    def _compound(self, word: str) -> GlossaryEntry | None:
        """The entry of a compound of two words: "beach house" for "strandhaus"."""
        for cut in range(SHORTEST_PART, len(word) - SHORTEST_PART + 1):
            last = self._noun(word[cut:])
            for joint in JOINTS:
                first = self.entries.get(word[:cut].removesuffix(joint)) if word[:cut].endswith(joint) else None
                if last is not None and first is not None and first.kind != "function":
                    return GlossaryEntry(f"{first.english} {last.english}", "nouns", telling=True)
        return None

    def _noun(self, word: str) -> GlossaryEntry | None:
        entries = (self.entries.get(form) for form in self._forms(word))
        return next((entry for entry in entries if entry is not None and entry.kind == "nouns"), None)


@cache
def glossaries() -> Mapping[str, Glossary]:
    """Language -> its glossary."""
    entries: dict[str, dict[str, GlossaryEntry]] = {language: {} for language in LANGUAGES}
    kind: WordKind = "nouns"
    for line in FILE.read_text(encoding="utf-8").splitlines():
        if line in KINDS:
            kind = KINDS[line]
            continue
        english, *columns = line.split(";")
        for language, words in zip(LANGUAGES, columns, strict=True):
            for word in words.split():
                entries[language][word.removesuffix("?")] = GlossaryEntry(english, kind, telling=not word.endswith("?"))
    return {language: Glossary(language, words_of_language) for language, words_of_language in entries.items()}
