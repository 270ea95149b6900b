"""Queries in words, parsed once: what texts are searched for, and what models read."""

from dataclasses import dataclass
from functools import lru_cache

from models.text.request_words import subject_of
from service.search.wording.exclusions import EXCLUDED_WEIGHT, parts_of
from service.search.wording.times import visible_part
from service.search.wording.translation import Translation, translation_of


@dataclass(frozen=True)
class ParsedQuery:
    """The parts of a query in words; all are empty for a search without words."""

    text: str
    """The query as it was written."""
    subject: str
    """The query without words that only ask for pictures: "a dog" of "show me a photo of a dog"."""
    translation: Translation | None
    """The subject in English; None where it is English already, or in a language that the glossary lacks."""
    english: str
    """The subject in English, as far as it can be, without times."""
    wanted: str
    """The part of `english` that pictures are to show; empty where it only rules something out."""
    excluded: tuple[str, ...]
    """The things that pictures are not to show, in English."""

    @property
    def wanted_or_all(self) -> str:
        """The part that pictures are to show; all of `english` where that is empty."""
        return self.wanted or self.english

    @property
    def subject_wanted(self) -> str:
        """The subject without what it rules out; as it was written where it rules out nothing."""
        return self.wanted if self.excluded else self.subject

    @property
    def sentences(self) -> list[tuple[str, float]]:
        """The sentences to score a picture with, and the weight of each in the sum: negative for what is ruled out."""
        if not self.wanted:
            return [(thing, -1.0) for thing in self.excluded]
        return [(self.wanted, 1.0), *((thing, -EXCLUDED_WEIGHT) for thing in self.excluded)]


@lru_cache(1024)
def parse_query(text: str) -> ParsedQuery:
    """The parts of a query in words."""
    subject = subject_of(text)
    translation = translation_of(subject)
    english = visible_part(subject) if translation is None else translation.english
    return ParsedQuery(text, subject, translation, english, *parts_of(english))
