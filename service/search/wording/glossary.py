"""A glossary: the English words for the words of other languages by which photographs are asked for.

Each line of glossary.txt has an English word or expression and the words that mean it in each of LANGUAGES, separated
by semicolons; lines in brackets say of which kind those below are. A question mark after a word says that English texts
use it, too, or that it may be a name, so that it does not tell a language.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from models.text.spellings import words_of_captions

FILE = Path(__file__).with_name("glossary.txt")
LANGUAGES = ("German", "French", "Spanish", "Italian")  # in the order of the columns
# Endings of inflected words, and the endings of the forms that are in the glossary.
ENDINGS: Mapping[str, Sequence[tuple[str, str]]] = {
    "German": [(ending, "") for ending in ("e", "n", "en", "er", "es", "em", "s")],
    "French": [("euses", "eux"), ("euse", "eux"), *((ending, "") for ending in ("s", "e", "es", "x"))],
    "Spanish": [("s", ""), ("es", ""), ("a", "o"), ("as", "o")],
    "Italian": [
        *(("h" + plural, vowel) for plural in "ie" for vowel in "oa"),
        *((one, other) for one in "aeio" for other in "aeio" if one != other),
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
    """The English for a word, its kind, and whether the word tells its language."""

    english: str
    kind: WordKind
    telling: bool


class Glossary:
    """The words of one language."""

    def __init__(self, language: str, entries: Mapping[str, GlossaryEntry]) -> None:
        self.language, self.entries = language, entries

    def find(self, word: str) -> GlossaryEntry | None:
        """The entry of a word in lower case, of its uninflected form, or of the two words that it is a compound of."""
        for form in self._forms(word):
            if form in self.entries:
                return self.entries[form]
        return self._compound(word) if self.language == COMPOUNDING and word not in words_of_captions() else None

    def _forms(self, word: str) -> Iterator[str]:
        yield word
        for ending, other in ENDINGS[self.language]:
            if word.endswith(ending) and len(word) - len(ending) >= SHORTEST_PART - 1:
                yield word.removesuffix(ending) + other

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
    return {language: Glossary(language, of_language) for language, of_language in entries.items()}
