"""Tags that a question names beside other words: the place Oslo of "a dog in Oslo"."""

from sqlite3 import Connection

from index.catalog.text_index import split_words

MOST_WORDS = 3  # of a value that is looked for
MOST_HOLDING = 50  # pictures whose tags hold such words


def named_tags(db: Connection, question: str) -> list[tuple[str, str]]:
    """Tags, as name and value, of ready pictures whose whole value stands in the question, longer ones first; of an
    album inside others its own name will do.

    Keywords are none of them: they are words for what pictures show.
    """
    words, found = split_words(question), dict[tuple[str, str], None]()
    for length in range(min(MOST_WORDS, len(words)), 0, -1):
        for start in range(len(words) - length + 1):
            said = words[start : start + length]
            tags = db.execute(
                "SELECT DISTINCT name, value FROM tags JOIN images ON number = image"
                f" WHERE image IN (SELECT rowid FROM texts WHERE texts MATCH ? LIMIT {MOST_HOLDING})"
                " AND state = 'ready' AND name != 'keywords' AND typeof(value) = 'text'",
                [f'tags : "{" ".join(said)}"'],
            )
            found |= dict.fromkeys((name, value) for name, value in tags if split_words(own_name(name, value)) == said)
    return list(found)


def own_name(name: str, value: str) -> str:
    """The value of a tag; of an album inside others the last part."""
    return value.rstrip("/").rpartition("/")[2] if name == "album" else value
