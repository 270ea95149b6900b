"""The words of pictures, searchable by SQLite's FTS5: file name, captions, tags, date, and the names of the folders and
albums that hold them. Steps of the caller's transactions keep them as the catalog is.

Words are split here, for what is indexed and for what is asked alike: FTS5 gets letters and digits, in lower case and
without accents, between spaces, and does no more than reduce English words to their stems (Porter 1980).
"""

import re
import unicodedata
from datetime import UTC, datetime
from itertools import pairwise
from sqlite3 import Connection

# Letters of scripts that put no space between words: Thai, Lao, Burmese, Khmer, Japanese and Chinese.
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
WORD = re.compile(rf"(?=[^\W_])[{UNSPACED}]|[^\W_{UNSPACED}]+")
ACCENTS = re.compile("[\u0300-\u036f]")
HEXADECIMAL = re.compile("[0-9a-f]{8,}", re.IGNORECASE)
MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
MOST_CUTS_OF_A_NAME = 2  # where it might be a hexadecimal number: "abc123", "cafe2024b"
# Day, month and year in either order, or month and year; and the year first.
NUMERIC_DATE = re.compile(r"(?<![\w./-])(?:(\d{1,2})[./-])?(\d{1,2})[./-]((?:19|20)\d\d)(?![\w/-]|\.\d)")
YEAR_FIRST = re.compile(r"(?<![\w./-])((?:19|20)\d\d)[./-](\d{1,2})(?:[./-](\d{1,2}))?(?![\w/-]|\.\d)")
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
OWN_COLUMNS = "filename captions tags dates"  # what is said of a picture itself, and not of the folder that it is in
TEXT_COLUMNS = ", ".join([*OWN_COLUMNS.split(), "folders"])

# Row = a picture's number in `images`. Everything beyond ASCII is part of a word here: words are split before.
TEXTS = f"CREATE VIRTUAL TABLE texts USING fts5 ({TEXT_COLUMNS}, tokenize = 'porter ascii')"

# The functions are those of this file, which `add_functions` gives to a connection.
# An album and keywords come with files: the names of these tags say nothing of a picture.
WORDS_OF = """SELECT number, name_words(base_name(filename)),
  plain_words(coalesce((SELECT group_concat(text, ' ') FROM captions WHERE image = number), '')),
  plain_words(coalesce((SELECT group_concat(CASE name WHEN 'keywords' THEN value ELSE name || ' ' || value END, ' ')
    FROM tags WHERE image = number AND name != 'album'), '')),
  date_words(taken_at),
  name_words(folder_name(filename)) || ' ' ||
    plain_words(coalesce((SELECT group_concat(value, ' ') FROM tags WHERE image = number AND name = 'album'), ''))
  FROM images"""
FILL = f"INSERT INTO texts (rowid, {TEXT_COLUMNS}) {WORDS_OF} WHERE erased_at IS NULL"

# How often words were taken away since the index was last freed of what it keeps of such.
REMOVED = "removed_texts"
NOTE_REMOVAL = (
    f"INSERT INTO counters VALUES ('{REMOVED}', 1) ON CONFLICT (name) DO UPDATE SET value = counters.value + 1"
)


def composed(text: str) -> str:
    """The text with each letter and its accents as one character where there is one, as keyboards write them (NFC).
    Names of files come apart on some machines, and are the same to whoever reads them."""
    return unicodedata.normalize("NFC", text)


def plain_letters(text: str) -> str:
    """The text in lower case, without accents."""
    if text.isascii():  # as most is, at a tenth of the time
        return text.lower()
    return ACCENTS.sub("", unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold()))


def split_words(text: str) -> list[str]:
    """The words of a text: runs of letters and digits, in lower case, without accents.

    Each letter of a script without spaces is a word: a name inside a text is found as words that follow each other.
    """
    return WORD.findall(plain_letters(text))


def plain_words(text: str) -> str:
    """The words of a text, as they are indexed: its own, then those of its dates in numbers."""
    return " ".join([*split_words(text), *_words_of_dates(text)])


def _words_of_dates(text: str) -> list[str]:
    joined = numeric_dates(text)
    return [] if joined == text else [word for word in split_words(joined) if len(word) >= 6 and word.isdecimal()]


def base_name(filename: str) -> str:
    """The name of a file without its folders."""
    return filename.rpartition("/")[2]


def folder_name(filename: str) -> str:
    """The names of the folders that a file's name begins with, with slashes; empty where it has none."""
    return filename.rpartition("/")[0]


def name_words(filename: str) -> str:
    """The words of a file name, then the parts of those that are put together: "DSC01234" is also "dsc" and "01234",
    "BeachHouse" also "beach" and "house"."""
    parts = [part for word in WORD.findall(filename) if len(found := parts_of(word)) > 1 for part in found]
    return " ".join([*split_words(filename), *split_words(" ".join(parts)), *_words_of_dates(filename)])


def parts_of(word: str) -> list[str]:
    """A word cut between letters and digits, and before a capital that follows a small letter.

    A hexadecimal number, such as a digest, has no parts.
    """
    cuts = [
        place
        for place, (before, after) in enumerate(pairwise(word), start=1)
        if before.isdecimal() != after.isdecimal() or (before.islower() and after.isupper())
    ]
    if len(cuts) > MOST_CUTS_OF_A_NAME and HEXADECIMAL.fullmatch(word):
        return [word]
    return [word[first:last] for first, last in pairwise([0, *cuts, len(word)])]


def date_words(taken_at: float | None) -> str:
    """A date as people write it, as 2023-05-14, 14 May 2023, Sunday and in numbers, in UTC; nothing for one outside the
    years 1 to 9999."""
    try:
        day = datetime.fromtimestamp(taken_at, UTC) if taken_at is not None else None
    except (ValueError, OverflowError, OSError):
        day = None
    if day is None:
        return ""
    year, month, number = f"{day.year:04}", f"{day.month:02}", f"{day.day:02}"
    name = MONTHS[day.month - 1]
    numbers = f"{year}{month}{number} {month}{year} {number}{month}{year} {month}{number}{year}"
    return f"{year} {month} {number} {day.day} {name} {year} {name[:3]} {WEEKDAYS[day.weekday()]} {numbers}"


def numeric_dates(text: str) -> str:
    """The text with its dates in numbers as `date_words` has them: 14.05.2023 and 14/5/2023 as 14052023, 05/2023 as
    052023, and 2023-5-14 as 2023-05-14."""
    joined = NUMERIC_DATE.sub(lambda date: "".join(part.zfill(2) for part in date.groups() if part), text)
    return YEAR_FIRST.sub(lambda date: "-".join(part.zfill(2) for part in date.groups() if part), joined)


def add_functions(connection: Connection) -> None:
    """Give the connection the functions that WORDS_OF, lists of tags and upgrades call."""
    for function in (composed, plain_letters, plain_words, base_name, folder_name, name_words, date_words):
        connection.create_function(function.__name__, 1, function, deterministic=True)


def index_text(db: Connection, number: int) -> None:
    """Index the words of a picture as they are now, after any change of its description."""
    fresh = db.execute(f"{WORDS_OF} WHERE number = ?", [number]).fetchone()
    known = db.execute(f"SELECT rowid, {TEXT_COLUMNS} FROM texts WHERE rowid = ?", [number]).fetchone()
    if known is not None and tuple(known) == tuple(fresh):
        return
    if known is not None:
        db.execute(NOTE_REMOVAL)
    db.execute(f"INSERT OR REPLACE INTO texts (rowid, {TEXT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)", tuple(fresh))


def remove_text(db: Connection, number: int) -> None:
    """Let go of the words of an erased picture."""
    if db.execute("DELETE FROM texts WHERE rowid = ?", [number]).rowcount:
        db.execute(NOTE_REMOVAL)


def rebuild_texts(db: Connection) -> None:
    """Index all pictures anew, whatever the index held."""
    db.execute("DROP TABLE texts")
    db.execute(TEXTS)
    db.execute(FILL)


def merge_texts(db: Connection, pages: int) -> bool:
    """Merge `pages` pages of the index, which leaves words behind that were taken away; False once all are merged.

    The first step of a merge of everything has `pages` below zero (https://sqlite.org/fts5.html, "merge").
    """
    before = db.total_changes
    db.execute("INSERT INTO texts (texts, rank) VALUES ('merge', ?)", [pages])
    return db.total_changes - before > 1
