"""BM25 over several catalogs as over one: what of the ranking depends on all texts is counted in each and added up.

FTS5's own bm25() knows the texts of one catalog alone. The counts that its formula takes (https://sqlite.org/fts5.html,
"The bm25() function") are read from the index: how often a text holds a word follows from bm25() of that one word.
"""

import math
from collections.abc import Sequence
from sqlite3 import Connection
from typing import NamedTuple

from index.filters import Filter
from index.queries import to_images
from index.records import Image
from index.schema import Database
from index.text_search import MOST_LOOKED_AT, match_expression, telling_words

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
        """Words a text."""
        return self.words / self.texts if self.texts else 0.0

    def idf(self, word: int) -> float:
        """The weight of a word of the question by how rare it is."""
        holding = self.holding[word]
        return max(LEAST_IDF, math.log((self.texts - holding + 0.5) / (holding + 0.5)))

    def length_term(self, length: int) -> float:
        """The term that BM25 adds to a frequency below the line, for a text of so many words."""
        return SATURATION * (1 - LENGTH_WEIGHT + LENGTH_WEIGHT * length / self.mean_length)

    def distance(self, frequencies: Sequence[float], length: int) -> float:
        """Minus BM25 of a text, which has so many words and holds each word of the question so often."""
        term = self.length_term(length)
        return -sum(
            self.idf(word) * frequency * (SATURATION + 1) / (frequency + term)
            for word, frequency in enumerate(frequencies)
        )


class ScoredText(NamedTuple):
    """A picture whose text holds every word of a question; less distance is a better match."""

    image: Image
    distance: float


class SharedTexts:
    """Searches the text index of a catalog as one of several. Every method is one look."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def statistics(self, question: str) -> TextStatistics:
        """The statistics of all texts here that a ranking needs."""
        with self._database.reading() as db:
            return read_statistics(db, question)

    def matches(self, question: str, limit: int, condition: Filter, everywhere: TextStatistics) -> list[ScoredText]:
        """Visible pictures that hold every word of the question and pass the filter, the best match first.

        `everywhere` are the statistics of all catalogs together.
        """
        with self._database.reading() as db:
            return scored_texts(db, question, limit, condition, everywhere)


def read_statistics(db: Connection, question: str) -> TextStatistics:
    """The statistics of a catalog's texts, inside a transaction of the caller's."""
    words = telling_words(question)
    found = db.execute("SELECT block FROM texts_data WHERE id = ?", [AVERAGES]).fetchone()
    num_texts, *lengths = varints(found[0]) if found is not None and found[0] else [0]
    sql = "SELECT count(*) FROM texts WHERE texts MATCH ?"
    holding = tuple(int(db.execute(sql, [f'"{word}"']).fetchone()[0]) for word in words)
    return TextStatistics(num_texts, sum(lengths), holding)


def scored_texts(
    db: Connection, question: str, limit: int, condition: Filter, everywhere: TextStatistics
) -> list[ScoredText]:
    """The matches of a question in one catalog, scored by the statistics of all, the best first.

    Of equal ones the latest comes first. Inside a transaction of the caller's.
    """
    words = telling_words(question)
    if not words:
        return []
    here = read_statistics(db, question)
    where, values = condition.sql()
    found = db.execute(
        "SELECT texts.rowid AS number FROM texts CROSS JOIN images WHERE texts MATCH ? AND number = texts.rowid"
        f" AND state = 'ready' AND {where} ORDER BY texts.rowid DESC LIMIT {MOST_LOOKED_AT}",
        [match_expression(question), *values],
    ).fetchall()
    frequencies = [_frequencies(db, word, here, place) for place, word in enumerate(words)]
    scored = [
        (round(everywhere.distance([of_word[number] for of_word in frequencies], _length(db, number)), 9), number)
        for (number,) in found
    ]
    scored = sorted(scored, key=lambda one: (one[0], -one[1]))[:limit]
    rows = [db.execute("SELECT * FROM images WHERE number = ?", [number]).fetchone() for _, number in scored]
    return [ScoredText(image, distance) for image, (distance, _) in zip(to_images(db, rows), scored, strict=True)]


def _frequencies(db: Connection, word: str, here: TextStatistics, place: int) -> dict[int, float]:
    """Number of a picture -> how often its text holds a word, from bm25() of the word alone, solved for it."""
    frequencies = {}
    for number, distance in db.execute("SELECT rowid, bm25(texts) FROM texts WHERE texts MATCH ?", [f'"{word}"']):
        part = -distance / here.idf(place)
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
