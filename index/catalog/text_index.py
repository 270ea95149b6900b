"""The full-text index (SQLite FTS5) of file names, captions, tags, dates, and names of folders and albums. It is
updated inside the caller's transactions.

Texts and questions are split into words by the same code here. FTS5 receives letters and digits in lower case, without
accents, separated by spaces, and only reduces English words to their stems (Porter 1980).
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
MOST_CUTS_OF_A_NAME = 2  # for a word that could be hexadecimal: "abc123", "cafe2024b"
# Day, month and year in either order, or month and year; and the year first.
NUMERIC_DATE = re.compile(r"(?<![\w./-])(?:(\d{1,2})[./-])?(\d{1,2})[./-]((?:19|20)\d\d)(?![\w/-]|\.\d)")
YEAR_FIRST = re.compile(r"(?<![\w./-])((?:19|20)\d\d)[./-](\d{1,2})(?:[./-](\d{1,2}))?(?![\w/-]|\.\d)")
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
OWN_COLUMNS = "filename captions tags dates"  # of the picture itself, not of the folders and albums that hold it
TEXT_COLUMNS = ", ".join([*OWN_COLUMNS.split(), "folders"])

# The row id is the picture's number in `images`. To this tokenizer all non-ASCII characters are parts of words.
TEXTS = f"CREATE VIRTUAL TABLE texts USING fts5 ({TEXT_COLUMNS}, tokenize = 'porter ascii')"

# The functions are those of this file, which `add_functions` gives to a connection.
# The tags "album" and "keywords" come with files: their names do not describe a picture.
WORDS_OF = """SELECT number, name_words(base_name(filename)),
  plain_words(coalesce((SELECT group_concat(text, ' ') FROM captions WHERE image = number), '')),
  plain_words(coalesce((SELECT group_concat(CASE name WHEN 'keywords' THEN value ELSE name || ' ' || value END, ' ')
    FROM tags WHERE image = number AND name != 'album'), '')),
  date_words(taken_at),
  name_words(folder_name(filename)) || ' ' ||
    plain_words(coalesce((SELECT group_concat(value, ' ') FROM tags WHERE image = number AND name = 'album'), ''))
  FROM images"""
FILL = f"INSERT INTO texts (rowid, {TEXT_COLUMNS}) {WORDS_OF} WHERE erased_at IS NULL"

# A counter: removals of texts since the index was last purged of them.
REMOVED = "removed_texts"
NOTE_REMOVAL = (
    f"INSERT INTO counters VALUES ('{REMOVED}', 1) ON CONFLICT (name) DO UPDATE SET value = counters.value + 1"
)


def composed(text: str) -> str:
    """The text in Unicode normal form C, in which keyboards write it. Some systems store file names decomposed, which
    read the same."""
    return unicodedata.normalize("NFC", text)


def plain_letters(text: str) -> str:
    """The text in lower case, without accents."""
    if text.isascii():  # the common case, in a tenth of the time
        return text.lower()
    return ACCENTS.sub("", unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold()))


def split_words(text: str) -> list[str]:
    """The words of a text: runs of letters and digits, in lower case, without accents.

    Each letter of a script without spaces is a word, so that a name inside a text is found as consecutive words.
    """
    return WORD.findall(plain_letters(text))


def plain_words(text: str) -> str:
    """The indexed words of a text: its own, then those of its numeric dates."""
    return " ".join([*split_words(text), *_words_of_dates(text)])


def _words_of_dates(text: str) -> list[str]:
    joined = numeric_dates(text)
    return [] if joined == text else [word for word in split_words(joined) if len(word) >= 6 and word.isdecimal()]


def base_name(filename: str) -> str:
    """The name of a file without its folders."""
    return filename.rpartition("/")[2]


def folder_name(filename: str) -> str:
    """The folders in a file's name, with slashes; empty where it has none."""
    return filename.rpartition("/")[0]


def name_words(filename: str) -> str:
    """The words of a file name, then the parts of compounds: "DSC01234" is also "dsc" and "01234", "BeachHouse" also
    "beach" and "house"."""
    parts = [part for word in WORD.findall(filename) if len(word_parts := parts_of(word)) > 1 for part in word_parts]
    return " ".join([*split_words(filename), *split_words(" ".join(parts)), *_words_of_dates(filename)])


def parts_of(word: str) -> list[str]:
    """A word split between letters and digits, and before a capital that follows a lower-case letter.

    A hexadecimal number, such as a digest, is not split.
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
    """The ways in which people write a date (2023-05-14, 14 May 2023, Sunday, and numeric forms), in UTC; empty for
    None and beyond the years 1 to 9999."""
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
    """The text with numeric dates in the forms of `date_words`: 14.05.2023 and 14/5/2023 as 14052023, 05/2023 as
    052023, and 2023-5-14 as 2023-05-14."""
    joined = NUMERIC_DATE.sub(lambda date: "".join(part.zfill(2) for part in date.groups() if part), text)
    return YEAR_FIRST.sub(lambda date: "-".join(part.zfill(2) for part in date.groups() if part), joined)


def add_functions(connection: Connection) -> None:
    """Register the SQL functions that WORDS_OF, lists of tags and upgrades call."""
    for function in (composed, plain_letters, plain_words, base_name, folder_name, name_words, date_words):
        connection.create_function(function.__name__, 1, function, deterministic=True)


def index_text(db: Connection, number: int) -> None:
    """Update the index to the picture's current description."""
    words = db.execute(f"{WORDS_OF} WHERE number = ?", [number]).fetchone()
    indexed = db.execute(f"SELECT rowid, {TEXT_COLUMNS} FROM texts WHERE rowid = ?", [number]).fetchone()
    if indexed is not None and tuple(indexed) == tuple(words):
        return
    if indexed is not None:
        db.execute(NOTE_REMOVAL)
    db.execute(f"INSERT OR REPLACE INTO texts (rowid, {TEXT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)", tuple(words))


def remove_text(db: Connection, number: int) -> None:
    """Remove the words of an erased picture."""
    if db.execute("DELETE FROM texts WHERE rowid = ?", [number]).rowcount:
        db.execute(NOTE_REMOVAL)


def rebuild_texts(db: Connection) -> None:
    """Rebuild the index of all pictures."""
    db.execute("DROP TABLE texts")
    db.execute(TEXTS)
    db.execute(FILL)


def merge_texts(db: Connection, pages: int) -> bool:
    """Merge `pages` pages of the index, which drops removed words; False once all are merged.

    The first step of a full merge takes a negative `pages` (https://sqlite.org/fts5.html, "merge").
    """
    changes_before = db.total_changes
    db.execute("INSERT INTO texts (texts, rank) VALUES ('merge', ?)", [pages])
    return db.total_changes - changes_before > 1
