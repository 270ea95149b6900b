"""Tags whose values a question contains: the place Oslo in "a dog in Oslo"."""

from collections.abc import Iterable, Sequence
from sqlite3 import Connection

from index.catalog.text_index import split_words

Tag = tuple[str, str]
"""Name and value."""
MOST_HOLDING = 20  # pictures inspected for each word
TAGS_HOLDING = (
    "SELECT DISTINCT name, value FROM tags WHERE image IN (SELECT texts.rowid FROM texts CROSS JOIN images"
    f"  WHERE texts MATCH ? AND images.number = texts.rowid AND state = 'ready' LIMIT {MOST_HOLDING})"
    " AND name != 'keywords' AND typeof(value) = 'text'"
)


def tags_beside(db: Connection, words: Iterable[str]) -> dict[str, list[Tag]]:
    """Word -> tags of ready pictures whose tags contain the word. Keywords are left out: they describe what pictures
    show."""
    return {
        word: [(name, value) for name, value in db.execute(TAGS_HOLDING, [f'{{tags folders}} : "{word}"'])]
        for word in words
    }


def named_tags(question: str, tags: Iterable[Tag]) -> list[Tag]:
    """The tags whose whole value occurs in the question, longer ones first; of a nested album only its own name has
    to."""
    words, lengths = split_words(question), dict[Tag, int]()
    for name, value in tags:
        value_words = split_words(value.rstrip("/").rpartition("/")[2] if name == "album" else value)
        if stands_in(value_words, words):
            lengths[name, value] = len(value_words)
    return sorted(lengths, key=lambda tag: -lengths[tag])


def stands_in(phrase: Sequence[str], words: Sequence[str]) -> bool:
    """Whether the phrase, of at least one word, occurs in the words."""
    return bool(phrase) and any(phrase == words[start : start + len(phrase)] for start in range(len(words)))
