"""Fields of a picture that were set before its regions were found, and that its file may therefore no longer set.

Metadata read from the file arrives with the regions, perhaps hours after somebody edited the picture. The fields are
"captions", "taken_at", "tags" for all tags, and "tags.NAME" for one tag, in NFC like the tag's name. Beside them,
DEFAULT_DATE says that the date holds only where the file has none.
"""

from collections.abc import Collection, Iterable, Mapping
from sqlite3 import Connection

from index.catalog.text_index import composed
from index.records import UNCHANGED, PictureChange, TagValue

WHOLE_DESCRIPTION = ("captions", "tags", "taken_at")
ONE_TAG = "tags."
DEFAULT_DATE = "default.taken_at"


def fields_of(change: PictureChange) -> Iterable[str]:
    """The fields that a change sets."""
    if change.captions is not UNCHANGED:
        yield "captions"
    if change.taken_at is not UNCHANGED:
        yield "taken_at"
    if change.tags is None:
        yield "tags"
    elif change.tags is not UNCHANGED:
        yield from (ONE_TAG + name for name in change.tags)


def decide(db: Connection, number: int, fields: Iterable[str]) -> None:
    """Record more fields of a picture as decided."""
    rows = [(number, composed(field)) for field in fields]
    db.executemany("INSERT OR IGNORE INTO decided_fields (image, field) VALUES (?, ?)", rows)


def decided_fields(db: Connection, number: int) -> set[str]:
    """The decided fields of a picture."""
    return {composed(row["field"]) for row in db.execute("SELECT field FROM decided_fields WHERE image = ?", [number])}


def forget_decided(db: Connection, number: int) -> None:
    """Clear the decided fields of a picture."""
    db.execute("DELETE FROM decided_fields WHERE image = ?", [number])


def undecided_tags(tags: Mapping[str, TagValue], decided: Collection[str]) -> dict[str, TagValue]:
    """The file's tags that are not decided."""
    if "tags" in decided:
        return {}
    return {name: value for name, value in tags.items() if ONE_TAG + composed(name) not in decided}
