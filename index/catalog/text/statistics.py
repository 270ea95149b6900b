"""BM25 across several catalogs: the counts that depend on all texts are taken in each catalog and added up.

FTS5's own bm25() knows only the texts of one catalog. The counts in its formula (https://sqlite.org/fts5.html, "The
bm25() function") are read from the index; a word's frequency in a text follows from bm25() of that word alone.
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

SATURATION, LENGTH_WEIGHT = 1.2, 0.75  # k1 and b, constants in FTS5
LEAST_IDF = 1e-6  # for a word that more than half of the texts contain
AVERAGES = 1  # the row of FTS5's data table with the numbers of texts and of their words


class TextStatistics(NamedTuple):
    """The number of texts of a catalog, of their words, and of the texts that contain each word of a question."""

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
        """The inverse document frequency of a word of the question."""
        holding = self.holding[word]
        return max(LEAST_IDF, math.log((self.texts - holding + 0.5) / (holding + 0.5)))

    def length_term(self, length: int) -> float:
        """The length-dependent term in BM25's denominator, for a text of `length` words."""
        # A text may be newer than empty statistics: it then counts as one of mean length.
        relative = length / self.mean_length if self.words else 1.0
        return SATURATION * (1 - LENGTH_WEIGHT + LENGTH_WEIGHT * relative)

    def bm25(self, frequencies: Sequence[float], length: int) -> float:
        """BM25 of a text of `length` words, from its frequency of each word of the question."""
        term = self.length_term(length)
        return sum(
            self.idf(word) * frequency * (SATURATION + 1) / (frequency + term)
            for word, frequency in enumerate(frequencies)
        )


class ScoredText(NamedTuple):
    """A picture that matches every word of a question; a higher `bm25` is a better match.

    Pictures that match only with the names of their folders and albums come after all others.
    """

    image: Image
    bm25: float
    by_folder: bool

    @property
    def order(self) -> tuple[bool, float]:
        """The sort key of matches, the best first."""
        return self.by_folder, -self.bm25


class CountedText(NamedTuple):
    """A picture that matches every word of a question, with the counts from which its BM25 is computed."""

    image: Image
    frequencies: tuple[int, ...]
    """Occurrences of each word of the question in the text."""
    length: int
    """Number of words of the text."""
    by_folder: bool
    """Whether it matches only with the names of its folders and albums."""

    def scored(self, everywhere: TextStatistics) -> ScoredText:
        """The picture with its BM25 from the statistics of all catalogs."""
        return ScoredText(self.image, _rounded_bm25(everywhere, self.frequencies, self.length), self.by_folder)


class SharedTexts:
    """Searches of a catalog's text index as one of several catalogs. Every method is one read transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def statistics(self, question: str) -> TextStatistics:
        """The statistics of this catalog's texts that a ranking needs."""
        with self._database.reading() as db:
            return read_statistics(db, question)

    def counted(
        self, question: str, limit: int, condition: Filter
    ) -> tuple[TextStatistics, Sequence[CountedText] | None]:
        """`statistics`, and all visible pictures that match every word of the question and pass the filter.

        None in place of the pictures where there are more than `limit`.
        """
        with self._database.reading() as db:
            here, words = read_statistics(db, question), word_expressions(question)
            numbers = _holding(db, question, limit + 1, condition)
            if len(numbers) > limit:
                return here, None
            frequencies = _frequencies_of(db, words, here, numbers)
            images, own_matches = _images(db, numbers), _said_of_themselves(db, question, numbers)
            return here, [
                CountedText(image, of_words, _length(db, number), number not in own_matches)
                for image, of_words, number in zip(images, frequencies, numbers, strict=True)
            ]

    def matches(self, question: str, limit: int, condition: Filter, everywhere: TextStatistics) -> list[ScoredText]:
        """Visible pictures that match every word of the question and pass the filter, the best match first.

        `everywhere`: the statistics of all catalogs together.
        """
        with self._database.reading() as db:
            return scored_texts(db, question, limit, condition, everywhere)


def read_statistics(db: Connection, question: str) -> TextStatistics:
    """The statistics of a catalog's texts, inside the caller's transaction."""
    row = db.execute("SELECT block FROM texts_data WHERE id = ?", [AVERAGES]).fetchone()
    num_texts, *lengths = varints(row[0]) if row is not None and row[0] else [0]
    sql = "SELECT count(*) FROM texts WHERE texts MATCH ?"
    holding = tuple(int(db.execute(sql, [word]).fetchone()[0]) for word in word_expressions(question))
    return TextStatistics(num_texts, sum(lengths), holding)


def scored_texts(
    db: Connection, question: str, limit: int, condition: Filter, everywhere: TextStatistics
) -> list[ScoredText]:
    """The matches in one catalog, scored by the statistics of all, the best first, inside the caller's transaction.

    Of equal ones the latest comes first.
    """
    words, numbers = word_expressions(question), _holding(db, question, MOST_LOOKED_AT, condition)
    frequencies = _frequencies_of(db, words, read_statistics(db, question), numbers)
    own_matches = _said_of_themselves(db, question, numbers)
    scored = [
        (number in own_matches, _rounded_bm25(everywhere, of_words, _length(db, number)), number)
        for of_words, number in zip(frequencies, numbers, strict=True)
    ]
    scored = sorted(scored, reverse=True)[:limit]
    images = _images(db, [number for _, _, number in scored])
    return [ScoredText(image, bm25, not itself) for image, (itself, bm25, _) in zip(images, scored, strict=True)]


def _holding(db: Connection, question: str, limit: int, condition: Filter) -> list[int]:
    """Numbers of the latest visible pictures, at most `limit`, that match every word and pass the filter."""
    expression = match_expression(question)
    if not expression:
        return []
    where, values = condition.sql()
    rows = db.execute(
        "SELECT texts.rowid AS number FROM texts CROSS JOIN images WHERE texts MATCH ? AND number = texts.rowid"
        f" AND state = 'ready' AND {where} ORDER BY texts.rowid DESC LIMIT ?",
        [expression, *values, limit],
    )
    return [number for (number,) in rows.fetchall()]


def _said_of_themselves(db: Connection, question: str, numbers: Sequence[int]) -> set[int]:
    """Numbers of the pictures that match every word of the question without names of folders or albums."""
    if not numbers:
        return set()
    sql = "SELECT rowid FROM texts WHERE texts MATCH ? AND rowid BETWEEN ? AND ?"
    rows = db.execute(sql, [of_itself(match_expression(question)), min(numbers), max(numbers)])
    return {number for (number,) in rows}


def _images(db: Connection, numbers: Sequence[int]) -> list[Image]:
    return to_images(
        db, [db.execute("SELECT * FROM images WHERE number = ?", [number]).fetchone() for number in numbers]
    )


def _rounded_bm25(everywhere: TextStatistics, frequencies: Sequence[float], length: int) -> float:
    # Sums in another order differ in the last digits, which must not affect the rank.
    return round(everywhere.bm25(frequencies, length), 9)


def _frequencies_of(
    db: Connection, words: Sequence[str], here: TextStatistics, numbers: Sequence[int]
) -> list[tuple[int, ...]]:
    """Occurrences of each word, given as FTS5 expressions, in the text of each picture."""
    if not numbers:
        return []
    by_word = [_frequencies(db, word, here, place, set(numbers)) for place, word in enumerate(words)]
    return [tuple(of_word.get(number, 0) for of_word in by_word) for number in numbers]


def _frequencies(
    db: Connection, word: str, here: TextStatistics, place: int, numbers: Collection[int]
) -> dict[int, int]:
    """Picture number -> occurrences of the word in its text, from bm25() of this word alone, solved for the
    frequency."""
    frequencies = {}
    # One statement for all pictures: each statement makes bm25() count the word's texts again.
    rows = db.execute(
        "SELECT rowid, bm25(texts) FROM texts WHERE texts MATCH ? AND rowid BETWEEN ? AND ?",
        [word, min(numbers), max(numbers)],
    )
    for number, minus_bm25 in rows:  # FTS5's bm25() is negative, so that the best sorts first
        if number in numbers:
            part = -minus_bm25 / here.idf(place)
            frequencies[number] = round(part * here.length_term(_length(db, number)) / (SATURATION + 1 - part))
    return frequencies


def _length(db: Connection, number: int) -> int:
    """The number of words of a picture's text, in all columns."""
    (sizes,) = db.execute("SELECT sz FROM texts_docsize WHERE id = ?", [number]).fetchone()
    return sum(varints(sizes))


def varints(content: bytes) -> list[int]:
    """The numbers of a row of SQLite's variable-length integers (https://sqlite.org/fileformat2.html, "varint")."""
    numbers, value, used = list[int](), 0, 0
    for byte in content:
        used += 1
        if used == 9:  # all eight bits of the ninth byte count
            value = value << 8 | byte
        else:
            value = value << 7 | byte & 0x7F
            if byte & 0x80:
                continue
        numbers.append(value)
        value, used = 0, 0
    return numbers
