"""Tags that a question names beside other words: the place Oslo of "a dog in Oslo"."""

from collections.abc import Iterable, Sequence
from sqlite3 import Connection

from index.catalog.text_index import split_words

Tag = tuple[str, str]
"""Name and value."""
MOST_HOLDING = 20  # pictures that are looked at for a word
TAGS_HOLDING = (
    "SELECT DISTINCT name, value FROM tags WHERE image IN (SELECT texts.rowid FROM texts CROSS JOIN images"
    f"  WHERE texts MATCH ? AND images.number = texts.rowid AND state = 'ready' LIMIT {MOST_HOLDING})"
    " AND name != 'keywords' AND typeof(value) = 'text'"
)


def tags_beside(db: Connection, words: Iterable[str]) -> dict[str, list[Tag]]:
    """Word -> the tags of ready pictures among whose tags it is. Keywords are left out: they are words for what
    pictures show."""
    return {
        word: [(name, value) for name, value in db.execute(TAGS_HOLDING, [f'{{tags folders}} : "{word}"'])]
        for word in words
    }


def named_tags(question: str, tags: Iterable[Tag]) -> list[Tag]:
    """The tags whose whole value stands in the question, longer ones first; of an album inside others its own name will
    do."""
    words, found = split_words(question), dict[Tag, int]()
    for name, value in tags:
        own = split_words(value.rstrip("/").rpartition("/")[2] if name == "album" else value)
        if stands_in(own, words):
            found[name, value] = len(own)
    return sorted(found, key=lambda tag: -found[tag])


def stands_in(some: Sequence[str], words: Sequence[str]) -> bool:
    """Whether the words contain `some` words, at least one, one after the other and in this order."""
    return bool(some) and any(some == words[start : start + len(some)] for start in range(len(words)))
