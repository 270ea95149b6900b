"""BM25 over several catalogs as over one: counts that depend on all texts are made in each catalog and added up.

FTS5's own bm25() knows the texts of one catalog alone. The counts that its formula takes (https://sqlite.org/fts5.html,
"The bm25() function") are read from the index: how often a text holds a word follows from bm25() of that one word.
"""

import math
from collections.abc import Collection, Sequence
from sqlite3 import Connection
from typing import NamedTuple

from index.catalog.database.connection import Database
from index.catalog.filters import Filter
from index.catalog.queries import to_images
from index.catalog.text.search import MOST_LOOKED_AT, match_expression, of_itself, word_expressions
from index.records import Image

SATURATION, LENGTH_WEIGHT = 1.2, 0.75  # k1 and b, which FTS5 has as constants
LEAST_IDF = 1e-6  # of a word that more than half of the texts hold
AVERAGES = 1  # the row of FTS5's data table that holds the number of texts and of their words


class TextStatistics(NamedTuple):
    """Of the texts of a catalog: how many, of how many words in all, and how many hold each word of a question."""

    texts: int
    words: int
    holding: tuple[int, ...]

    @classmethod
    def total(cls, parts: Sequence["TextStatistics"]) -> "TextStatistics":
        """The statistics of several catalogs together."""
        holding = tuple(sum(counts) for counts in zip(*(part.holding for part in parts), strict=True))
        return cls(sum(part.texts for part in parts), sum(part.words for part in parts), holding)

    @property
    def mean_length(self) -> float:
        """Mean number of words per text."""
        return self.words / self.texts if self.texts else 0.0

    def idf(self, word: int) -> float:
        """The weight of a word of the question by how rare it is."""
        holding = self.holding[word]
        return max(LEAST_IDF, math.log((self.texts - holding + 0.5) / (holding + 0.5)))

    def length_term(self, length: int) -> float:
        """The term that BM25 adds to a frequency below the line, for a text of `length` words."""
        # Statistics of nothing may meet a text that was written since: it counts as one of mean length.
        relative = length / self.mean_length if self.words else 1.0
        return SATURATION * (1 - LENGTH_WEIGHT + LENGTH_WEIGHT * relative)

    def bm25(self, frequencies: Sequence[float], length: int) -> float:
        """BM25 of a text of `length` words, by how often it holds each word of the question."""
        term = self.length_term(length)
        return sum(
            self.idf(word) * frequency * (SATURATION + 1) / (frequency + term)
            for word, frequency in enumerate(frequencies)
        )


class ScoredText(NamedTuple):
    """A picture whose text holds every word of a question; the higher its `bm25`, the better the match.

    One that needs the names of its folders and albums for them comes after all others.
    """

    image: Image
    bm25: float
    by_folder: bool

    @property
    def order(self) -> tuple[bool, float]:
        """The key that sorts matches, the best first."""
        return self.by_folder, -self.bm25


class CountedText(NamedTuple):
    """A picture whose text holds every word of a question, and what its BM25 is computed from."""

    image: Image
    frequencies: tuple[int, ...]
    """How often the text holds each word of the question."""
    length: int
    """Words of the text."""
    by_folder: bool
    """Whether it needs the names of its folders and albums for them."""

    def scored(self, everywhere: TextStatistics) -> ScoredText:
        """The picture with its BM25 by the statistics of all catalogs."""
        return ScoredText(self.image, _rounded_bm25(everywhere, self.frequencies, self.length), self.by_folder)


class SharedTexts:
    """Searches the text index of a catalog as one of several. Every method is one look."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def statistics(self, question: str) -> TextStatistics:
        """The statistics of all texts here that a ranking needs."""
        with self._database.reading() as db:
            return read_statistics(db, question)

    def counted(
        self, question: str, limit: int, condition: Filter
    ) -> tuple[TextStatistics, Sequence[CountedText] | None]:
        """`statistics`, and all visible pictures that hold every word of the question and pass the filter.

        None for these where there are more than `limit`.
        """
        with self._database.reading() as db:
            here, words = read_statistics(db, question), word_expressions(question)
            numbers = _holding(db, question, limit + 1, condition)
            if len(numbers) > limit:
                return here, None
            frequencies = _frequencies_of(db, words, here, numbers)
            images, own = _images(db, numbers), _said_of_themselves(db, question, numbers)
            return here, [
                CountedText(image, of_words, _length(db, number), number not in own)
                for image, of_words, number in zip(images, frequencies, numbers, strict=True)
            ]

    def matches(self, question: str, limit: int, condition: Filter, everywhere: TextStatistics) -> list[ScoredText]:
        """Visible pictures that hold every word of the question and pass the filter, the best match first.

        `everywhere` are the statistics of all catalogs together.
        """
        with self._database.reading() as db:
            return scored_texts(db, question, limit, condition, everywhere)


def read_statistics(db: Connection, question: str) -> TextStatistics:
    """The statistics of a catalog's texts, inside a transaction of the caller's."""
    found = db.execute("SELECT block FROM texts_data WHERE id = ?", [AVERAGES]).fetchone()
    num_texts, *lengths = varints(found[0]) if found is not None and found[0] else [0]
    sql = "SELECT count(*) FROM texts WHERE texts MATCH ?"
    holding = tuple(int(db.execute(sql, [word]).fetchone()[0]) for word in word_expressions(question))
    return TextStatistics(num_texts, sum(lengths), holding)


def scored_texts(
    db: Connection, question: str, limit: int, condition: Filter, everywhere: TextStatistics
) -> list[ScoredText]:
    """The matches of a question in one catalog, scored by the statistics of all, the best first.

    Of equal ones the latest comes first. Inside a transaction of the caller's.
    """
    words, numbers = word_expressions(question), _holding(db, question, MOST_LOOKED_AT, condition)
    frequencies = _frequencies_of(db, words, read_statistics(db, question), numbers)
    own = _said_of_themselves(db, question, numbers)
    scored = [
        (number in own, _rounded_bm25(everywhere, of_words, _length(db, number)), number)
        for of_words, number in zip(frequencies, numbers, strict=True)
    ]
    scored = sorted(scored, reverse=True)[:limit]
    images = _images(db, [number for _, _, number in scored])
    return [ScoredText(image, bm25, not itself) for image, (itself, bm25, _) in zip(images, scored, strict=True)]


def _holding(db: Connection, question: str, limit: int, condition: Filter) -> list[int]:
    """Numbers of the visible pictures that hold every word and pass the filter: the latest, as many as the limit."""
    expression = match_expression(question)
    if not expression:
        return []
    where, values = condition.sql()
    found = db.execute(
        "SELECT texts.rowid AS number FROM texts CROSS JOIN images WHERE texts MATCH ? AND number = texts.rowid"
        f" AND state = 'ready' AND {where} ORDER BY texts.rowid DESC LIMIT ?",
        [expression, *values, limit],
    )
    return [number for (number,) in found.fetchall()]


def _said_of_themselves(db: Connection, question: str, numbers: Sequence[int]) -> set[int]:
    """Numbers of the pictures that need no name of a folder or album to hold every word of the question."""
    if not numbers:
        return set()
    sql = "SELECT rowid FROM texts WHERE texts MATCH ? AND rowid BETWEEN ? AND ?"
    found = db.execute(sql, [of_itself(match_expression(question)), min(numbers), max(numbers)])
    return {number for (number,) in found}


def _images(db: Connection, numbers: Sequence[int]) -> list[Image]:
    return to_images(
        db, [db.execute("SELECT * FROM images WHERE number = ?", [number]).fetchone() for number in numbers]
    )


def _rounded_bm25(everywhere: TextStatistics, frequencies: Sequence[float], length: int) -> float:
    # Sums in another order differ in their last digits, and are no other rank.
    return round(everywhere.bm25(frequencies, length), 9)


def _frequencies_of(
    db: Connection, words: Sequence[str], here: TextStatistics, numbers: Sequence[int]
) -> list[tuple[int, ...]]:
    """Occurrences of each word, as FTS5 takes it, in the text of each of these pictures."""
    if not numbers:
        return []
    each = [_frequencies(db, word, here, place, set(numbers)) for place, word in enumerate(words)]
    return [tuple(of_word.get(number, 0) for of_word in each) for number in numbers]


def _frequencies(
    db: Connection, word: str, here: TextStatistics, place: int, wanted: Collection[int]
) -> dict[int, int]:
    """Number of a picture -> how often its text holds a word, from bm25() of the word alone, solved for it."""
    frequencies = {}
    # One look for all: bm25() counts the word's texts anew for each statement.
    found = db.execute(
        "SELECT rowid, bm25(texts) FROM texts WHERE texts MATCH ? AND rowid BETWEEN ? AND ?",
        [word, min(wanted), max(wanted)],
    )
    for number, minus_bm25 in found:  # FTS5's bm25() is below zero, so that the best comes first
        if number in wanted:
            part = -minus_bm25 / here.idf(place)
            frequencies[number] = round(part * here.length_term(_length(db, number)) / (SATURATION + 1 - part))
    return frequencies


def _length(db: Connection, number: int) -> int:
    """Words of a picture's text, all columns together."""
    (sizes,) = db.execute("SELECT sz FROM texts_docsize WHERE id = ?", [number]).fetchone()
    return sum(varints(sizes))


def varints(content: bytes) -> list[int]:
    """The numbers of a row of SQLite's variable-length integers (https://sqlite.org/fileformat2.html, "varint")."""
    numbers, value, used = list[int](), 0, 0
    for byte in content:
        used += 1
        if used == 9:  # the ninth byte counts whole
            value = value << 8 | byte
        else:
            value = value << 7 | byte & 0x7F
            if byte & 0x80:
                continue
        numbers.append(value)
        value, used = 0, 0
    return numbers
