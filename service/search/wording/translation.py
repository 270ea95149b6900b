"""Word-by-word translation of questions in German, French, Spanish and Italian: models read English only."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from models.text.spellings import words_of_captions
from service.search.wording.foreign_words import FUNCTION_WORDS
from service.search.wording.glossary import LANGUAGES, NOUNS_BEFORE_ADJECTIVES, Glossary, GlossaryEntry, glossaries
from service.search.wording.languages import ANOTHER, language_of
from service.search.wording.times import visible_part

WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
ELIDED = re.compile(r"\b([^\W\d_]{1,5})['’](?=\w)")  # of "l'homme", "dell'uomo"
LEAST_READ = 0.6  # share of a question's words that are translated or are English
ENGLISH = frozenset(FUNCTION_WORDS["English"].split())


class Translation(NamedTuple):
    """A question in English, the language that it was asked in, and what each of its words is read as."""

    language: str
    english: str
    words: dict[str, str]


def translation_of(subject: str) -> Translation | None:
    """The English of what pictures can show of a question's subject; None where that is English already, or in a
    language that the glossary lacks.

    Most words must be in the glossary, or the same in English ("Giraffe", "Laptop"). Unless `language_of` knows the
    language, at least one word must be evidence of it, and as many as are the same in English. All other words stay as
    they are: they may be names.
    """
    visible = visible_part(subject)
    plain, known = ELIDED.sub(r"\1 ", visible), language_of(visible)
    languages = LANGUAGES if known in (None, ANOTHER) else [known] if known in LANGUAGES else []
    each = (_translation(plain, glossaries()[language], known is not None) for language in languages)
    translations = [translation for translation in each if translation is not None]
    return translations[0] if len({translation.english for translation in translations}) == 1 else None


def _translation(question: str, glossary: Glossary, is_known: bool) -> Translation | None:
    pieces = _pieces(question, glossary)
    words = [word for word in pieces if WORD.fullmatch(word)]
    lower = [word.lower() for word in words]
    if any(word not in glossary.entries for word in ENGLISH.intersection(lower)):
        return None
    entries = [glossary.find(word) for word in lower]
    known = [entry for entry in entries if entry is not None]
    num_same = len({word for word, entry in zip(lower, entries, strict=True) if entry is None} & words_of_captions())
    num_telling = sum(entry.telling for entry in known)
    if all(entry.kind == "function" for entry in known):
        return None
    if len(known) + num_same < LEAST_READ * len(words) or not (is_known or num_telling >= max(1, num_same)):
        return None
    english = iter(_in_english_order(words, entries, glossary.language))
    read_as = {
        word: entry.english
        for word, entry in zip(lower, entries, strict=True)
        if entry is not None and entry.kind != "function" and entry.english != word
    }
    joined = "".join(next(english) if WORD.fullmatch(piece) else piece for piece in pieces)
    if glossary.language == "French":
        joined = joined.replace("not of ", "no ")  # "pas de chien"
    if joined == question:
        return None
    return Translation(glossary.language, joined, read_as)


def _pieces(question: str, glossary: Glossary) -> list[str]:
    """The words of a question and the text between them. A hyphenated word that the glossary lacks is split."""
    pieces = re.split(f"({WORD.pattern})", question)
    return [
        part
        for piece in pieces
        for part in (
            [piece] if "-" not in piece or glossary.find(piece.lower()) is not None else re.split("(-)", piece)
        )
        if part
    ]


def _in_english_order(words: Sequence[str], entries: Sequence[GlossaryEntry | None], language: str) -> list[str]:
    """The English words; an adjective that follows its noun, as in Romance languages, is moved before it."""
    kinds = [None if entry is None else entry.kind for entry in entries]
    english = [word if entry is None else entry.english for word, entry in zip(words, entries, strict=True)]
    if language in NOUNS_BEFORE_ADJECTIVES:
        for place in range(1, len(kinds)):
            if kinds[place] == "adjectives":
                before = place
                while before and kinds[before - 1] == "nouns":
                    kinds[before - 1], kinds[before] = kinds[before], kinds[before - 1]
                    english[before - 1], english[before] = english[before], english[before - 1]
                    before -= 1
    return english
