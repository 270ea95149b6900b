"""Full-text search of pictures: those that contain every word of a question, the best match first."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from sqlite3 import Connection
from typing import NamedTuple

from index.catalog.database.connection import Database
from index.catalog.filters import Filter
from index.catalog.queries import to_images
from index.catalog.text import foreign_dates
from index.catalog.text.named_tags import Tag, tags_beside
from index.catalog.text_index import (
    MONTHS,
    OWN_COLUMNS,
    REMOVED,
    WEEKDAYS,
    WORD,
    composed,
    merge_texts,
    numeric_dates,
    plain_letters,
    rebuild_texts,
    split_words,
)
from index.records import Image

MOST_LOOKED_AT = 10_000  # matches that are ranked: of more only the latest, so that a search stays quick
PAGES_A_STEP = 500  # of the index that one transaction merges
YEAR = re.compile(r"(?:19|20)\d\d(?:\d{4})?|\d{2}(?:\d{2})?(?:19|20)\d\d")  # perhaps with month and day
PLAIN_MONTHS = sorted({*MONTHS} - {"march", "may"})  # which have no other meaning
MONTH_NAMES = {*MONTHS, *(month[:3] for month in MONTHS)}
_DAY, _MONTH = r"(\b\d{1,2})(?:st|nd|rd|th)\b", rf"(?:{'|'.join(sorted(MONTH_NAMES))})\b"
# A day's number without its ending, beside a month: the 14th of May, May 14th.
DAY_BEFORE_MONTH = re.compile(rf"{_DAY}(?=\s+(?:of\s+)?{_MONTH})", re.IGNORECASE)
DAY_AFTER_MONTH = re.compile(rf"(\b{_MONTH}\.?\s+\d{{1,2}})(?:st|nd|rd|th)\b", re.IGNORECASE)
ANY_MONTH = MONTH_NAMES | foreign_dates.FOREIGN_MONTHS
DAY_NAMES = {*MONTH_NAMES, *WEEKDAYS, *foreign_dates.ENGLISH}
DAY = re.compile(r"\d{1,2}")
BESIDE_DATES = "- dates : "  # an FTS5 column filter: all columns but dates
UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})
# Letters that may spell an umlaut: before a consonant, where they are rare in English but for "queen" and "shoes".
SPELT_UMLAUT = re.compile(r"(?<![aeiouq])([aou])e(?=[bcdfghj-np-tvwxz]|(?<=ae)u)(?!s\b)")
NO_UMLAUT = frozenset({"coed", "coeds", "guest", "guests", "poet", "poets"})  # other words without their "e"
# A word or phrase that must not occur: -snow, -"red ball"; no ending of a file's name.
MINUS = (
    r"(?:^|(?<=\s))-(?:[\"“”„«](?P<quoted>[^\"“”«»]*[^\W\d_][^\"“”«»]*)[\"“”»]"
    r"|(?P<word>[^\W\d][\w'-]*)(?![\w'-]|\.\w))"
)
EXCLUDED = re.compile(MINUS)
BETWEEN_PARTS = re.compile(r"[\s/\\]+")
# Words of a question that do not describe what it asks for.
# fmt: off
ENGLISH_STOP_WORDS = frozenset({
    "a", "album", "albums", "all", "an", "and", "any", "anything", "are", "as", "at", "be", "been", "by", "did",
    "do", "everything", "for", "from", "had", "happened", "has", "have", "he", "her", "him", "his", "i", "image",
    "images", "in", "is", "it", "its", "me", "my", "of", "on", "or", "our", "photo", "photograph", "photographs",
    "photos", "pic", "pics", "picture", "pictures", "pix", "please", "she", "some", "taken", "that", "the",
    "their", "them", "there", "these", "they", "this", "those", "to", "took", "was", "we", "were", "what", "when",
    "where", "which", "who", "with", "you", "your",
})
PICTURE_NOUNS = frozenset({"bild", "foto", "image", "photo", "pic", "picture"})
# Stop words of German, French, Spanish and Italian that are rare in English questions.
FOREIGN_STOP_WORDS = frozenset({
    "aus", "bild", "bilder", "foto", "fotos", "ist", "mir", "unsere", "vom", "von", "wo", "zeige",
    "de", "des", "del", "della", "di", "du", "imagenes", "immagini",
})
# fmt: on
STOP_WORDS = ENGLISH_STOP_WORDS | FOREIGN_STOP_WORDS


class TextMatch(NamedTuple):
    """A picture that contains the words of a question; equally good matches share a rank, counted from 1.

    Matches `by_folder` need the names of folders and albums, and come after those whose own description has all words.
    """

    image: Image
    rank: int
    by_folder: bool = False


class TextSearch:
    """Searches of the text index. Reading methods are one transaction; others run several of their own."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def matches(self, question: str, limit: int, condition: Filter) -> list[TextMatch]:
        """Visible pictures that contain every word of the question and pass the filter, the best match first.

        They are ranked by BM25, those that match by a folder's name after the others; of equal ones the latest comes
        first. A question without a word has no matches.
        """
        words = match_expression(question)
        if not words:
            return []
        with self._database.reading() as db:
            return ranked_matches(db, words, limit, condition)

    def tags_beside(self, words: Iterable[str]) -> dict[str, list[Tag]]:
        """Word -> tags of visible pictures whose tags contain the word, except keywords."""
        with self._database.reading() as db:
            return tags_beside(db, words)

    def rebuild(self) -> None:
        """Rebuild the index of all pictures."""
        with self._database.writing() as db:
            rebuild_texts(db)
            db.execute("DELETE FROM counters WHERE name = ?", [REMOVED])

    def purge(self) -> bool:
        """Purge removed words, which the index keeps until then; False where there are none."""
        with self._database.reading() as db:
            row = db.execute("SELECT value FROM counters WHERE name = ?", [REMOVED]).fetchone()
        if row is None or not row["value"]:
            return False
        pages = -PAGES_A_STEP
        while self._merge(pages):
            pages = PAGES_A_STEP
        with self._database.writing() as db:
            db.execute("UPDATE counters SET value = value - ? WHERE name = ?", [row["value"], REMOVED])
        return True

    def _merge(self, pages: int) -> bool:
        with self._database.writing() as db:
            return merge_texts(db, pages)


def content_words(question: str) -> list[str]:
    """The distinct words of a question without stop words."""
    return [word for word in dict.fromkeys(split_words(question)) if word not in STOP_WORDS]


def _wanted(question: str) -> tuple[str, list[str]]:
    """The question without the words excluded by a minus sign, and these."""
    return EXCLUDED.sub(" ", question), [quoted or word for quoted, word in EXCLUDED.findall(question)]


def query_terms(question: str) -> list[str]:
    """The words that a picture must contain. Words written together, such as IMG_0412 and 2023-05, are one term, with
    spaces.

    A slash separates a folder from a file, which the index keeps apart. Stop words count only where there is nothing
    else; a word for a picture counts before its number: "photo 12".
    """
    question, _ = _wanted(question)
    plain = DAY_AFTER_MONTH.sub(r"\1", DAY_BEFORE_MONTH.sub(r"\1", numeric_dates(question)))
    word_lists = (split_words(part) for part in BETWEEN_PARTS.split(plain))
    parts = (
        part for words in word_lists for part in ([[word] for word in words] if _is_named_date(words) else [words])
    )
    terms = list(dict.fromkeys(" ".join(part) for part in parts if part))
    content_terms = [word for word in terms if word not in STOP_WORDS] or terms
    if len(content_terms) == 1 and content_terms[0].isdecimal() and not YEAR.fullmatch(content_terms[0]):
        content_terms = [
            *(noun for noun, word in pairwise(terms) if word == content_terms[0] and noun in PICTURE_NOUNS),
            *content_terms,
        ]
    date = [word for word in content_terms if word not in foreign_dates.AROUND]
    return date if len(date) < len(content_terms) and _are_date(date) else content_terms


def _is_named_date(words: Sequence[str]) -> bool:
    """Whether words that are written together are a date with a month's name, such as May-14-2023."""
    are_months = [word in ANY_MONTH for word in words]
    return any(are_months) and all(word in ANY_MONTH or word.isdecimal() for word in words)


def is_date(question: str) -> bool:
    """Whether a question is a date and nothing else: 2023, May 2023, December. May alone is not: it may be a name."""
    return _are_date(query_terms(question))


def _are_date(terms: Sequence[str]) -> bool:
    words = [word for part in terms for word in part.split()]
    is_day = any(map(DAY.fullmatch, words)) and not ANY_MONTH.isdisjoint(words)
    is_complete = is_day or any(map(YEAR.fullmatch, words)) or (len(words) == 1 and words[0] in PLAIN_MONTHS)
    return is_complete and all(word in DAY_NAMES or word.isdecimal() for word in words)


def word_expressions(question: str) -> list[str]:
    """The FTS5 expressions of the query terms and of their other spellings."""
    return [expression for spellings in _spelt_expressions(question) for expression in spellings]


def _spelt_expressions(question: str) -> list[list[str]]:
    """The spellings of each query term, as FTS5 expressions.

    Each is quoted, so that FTS5 finds no operator in it. Words written together must be adjacent, in this order. A
    small number matches that of a day only beside a month, a weekday or a year: "3 dogs" were not taken on the third.
    """
    words = query_terms(question)
    dated = [any(part in DAY_NAMES or YEAR.fullmatch(part) for part in word.split()) for word in words]
    for place in (*range(len(words)), *reversed(range(len(words)))):  # also a day beside the number of a month
        dated[place] |= bool(DAY.fullmatch(words[place])) and any(dated[max(place - 1, 0) : place + 2])
    spelt_out = _spelt_out(question)
    return [
        [f'{BESIDE_DATES}"{word}"']
        if DAY.fullmatch(word) and not is_dated
        else [f'"{spelling}"' for spelling in _spellings(word, spelt_out) + _in_english(words, place)]
        for place, (word, is_dated) in enumerate(zip(words, dated, strict=True))
    ]


def _in_english(words: Sequence[str], place: int) -> list[str]:
    """The English name of a foreign month or weekday, where the word stands beside a number."""
    english = foreign_dates.ENGLISH.get(words[place])
    beside = words[max(place - 1, 0) : place + 2]
    return [english] if english is not None and any(map(str.isdecimal, beside)) else []


def _spelt_out(question: str) -> dict[str, str]:
    """Word of the question with ä, ö or ü, without accents -> the word spelt with ae, oe or ue."""
    words = WORD.findall(composed(question).lower())
    return {plain_letters(word): plain_letters(word.translate(UMLAUTS)) for word in words if not word.isascii()}


def _spellings(term: str, spelt_out: Mapping[str, str]) -> list[str]:
    """The term, and its other spellings of ä, ö and ü: "kueche" and "Küche", which is indexed as "kuche", find each
    other."""
    words = term.split()
    short = (word if word in NO_UMLAUT else SPELT_UMLAUT.sub(r"\1", word) for word in words)
    long = (spelt_out.get(word, word) for word in words)
    return list(dict.fromkeys([term, " ".join(short), " ".join(long)]))


def match_expression(question: str) -> str:
    """The question as an FTS5 expression; empty where it asks for no word.

    A word after a minus sign must not occur, unless a text has the whole question: a picture may be called "Ann -Bob".
    """
    wanted = " AND ".join(
        spellings[0] if len(spellings) == 1 else f"({' OR '.join(spellings)})"
        for spellings in _spelt_expressions(question)
    )
    _, excluded = _wanted(question)
    phrases = [" ".join(words) for words in map(split_words, excluded) if words]
    if not wanted or not phrases:
        return wanted
    spelt_out, whole = _spelt_out(question), " ".join(split_words(question))
    unwanted = " OR ".join(f'"{spelling}"' for phrase in phrases for spelling in _spellings(phrase, spelt_out))
    return f'(({wanted}) NOT ({unwanted})) OR "{whole}"'


def of_itself(words: str) -> str:
    """The FTS5 expression restricted to the picture's own description, without the names of folders and albums."""
    return f"{{{OWN_COLUMNS}}} : ({words})"


def ranked_matches(db: Connection, words: str, limit: int, condition: Filter) -> list[TextMatch]:
    """The matches of an FTS5 expression, inside the caller's transaction."""
    where, values = condition.sql()
    # CROSS JOIN: the text index is searched once, and the pictures are looked up from its results.
    rows = db.execute(
        "WITH held AS MATERIALIZED (SELECT texts.rowid AS number, bm25(texts) AS minus_bm25"
        "  FROM texts CROSS JOIN images WHERE texts MATCH ? AND images.number = texts.rowid AND state = 'ready' AND "
        f"  {where} ORDER BY texts.rowid DESC LIMIT {MOST_LOOKED_AT}),"
        " own AS (SELECT rowid FROM texts WHERE texts MATCH ? AND rowid >= (SELECT min(number) FROM held)),"
        " marked AS (SELECT number, minus_bm25, number NOT IN own AS by_folder FROM held)"
        " SELECT images.*, place, by_folder FROM (SELECT number, by_folder,"
        "  rank() OVER (ORDER BY by_folder, round(minus_bm25, 9)) AS place"
        "  FROM marked ORDER BY place, number DESC LIMIT ?) AS best JOIN images USING (number)"
        " ORDER BY place, number DESC",
        [words, *values, of_itself(words), limit],
    ).fetchall()
    images = to_images(db, rows)
    return [TextMatch(image, row["place"], bool(row["by_folder"])) for image, row in zip(images, rows, strict=True)]
