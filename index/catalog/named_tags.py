"""Tags that a question names beside other words: the place Oslo of "a dog in Oslo"."""

from collections.abc import Collection, Sequence
from sqlite3 import Connection

from index.catalog.text_index import split_words

MOST_HOLDING = 10  # pictures that are looked at for a word: every search without a match asks for this
TAGS_HOLDING = (
    "SELECT DISTINCT name, value FROM tags JOIN images ON number = image"
    f" WHERE image IN (SELECT rowid FROM texts WHERE texts MATCH ? LIMIT {MOST_HOLDING})"
    " AND state = 'ready' AND name != 'keywords' AND typeof(value) = 'text'"
)


def named_tags(db: Connection, question: str, ignored: Collection[str] = ()) -> list[tuple[str, str]]:
    """Tags, as name and value, of ready pictures whose whole value stands in the question, longer ones first; of an
    album inside others its own name will do. Words to be `ignored` alone are no value.

    Keywords are none of them: they are words for what pictures show.
    """
    words, found = split_words(question), dict[tuple[str, str], int]()
    for word in dict.fromkeys(words):
        if word not in ignored:
            for name, value in db.execute(TAGS_HOLDING, [f'tags : "{word}"']):
                own = split_words(own_name(name, value))
                if stands_in(own, words):
                    found[name, value] = len(own)
    return sorted(found, key=lambda tag: -found[tag])


def own_name(name: str, value: str) -> str:
    """The value of a tag; of an album inside others the last part."""
    return value.rstrip("/").rpartition("/")[2] if name == "album" else value


def stands_in(some: Sequence[str], words: Sequence[str]) -> bool:
    """Whether some words, of which there are any, follow each other so among others."""
    return any(some == words[start : start + len(some)] for start in range(len(words))) if some else False
