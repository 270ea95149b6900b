"""Changes of a picture's description, inside the caller's transaction."""

from collections.abc import Mapping, Sequence
from sqlite3 import Connection

from index.catalog.changes.decided_fields import decide, fields_of, forget_decided
from index.catalog.changes.deletion import erase_captions
from index.catalog.changes.description_bounds import OversizedDescription, count_description, excess_over
from index.catalog.changes.writes import add_caption, assign_caption_slots, set_tag
from index.catalog.filters import checked_value
from index.catalog.text_index import composed, index_text
from index.records import UNCHANGED, PictureChange, TagValue


def apply_change(db: Connection, image_id: str, change: PictureChange, bounded: bool = False) -> bool:
    """Apply the change; False where the picture is unknown or deleted. Raises ValueError for a bad tag or caption and,
    if `bounded`, OversizedDescription where the picture would have too many captions or tags."""
    sql = "SELECT number, slot FROM images WHERE image_id = ? AND deleted_at IS NULL"
    row = db.execute(sql, [image_id]).fetchone()
    if row is None:
        return False
    number = int(row["number"])
    counts_before = count_description(db, number)
    if change.captions is not UNCHANGED:
        replace_captions(db, number, change.captions)
        if row["slot"] is not None:
            assign_caption_slots(db, [number])
    if change.tags is not UNCHANGED:
        change_tags(db, number, change.tags)
    if bounded and (excess := excess_over(count_description(db, number), counts_before)) is not None:
        raise OversizedDescription({image_id: excess})
    if change.taken_at is not UNCHANGED:
        taken_at = None if change.taken_at is None else checked_value("taken_at", change.taken_at)
        db.execute("UPDATE images SET taken_at = ? WHERE number = ?", [taken_at, number])
    if change.filename is not UNCHANGED:
        db.execute("UPDATE images SET filename = ? WHERE number = ?", [change.filename, number])
    if row["slot"] is None:
        if change.decided_fields is not UNCHANGED:
            forget_decided(db, number)
        decide(db, number, fields_of(change) if change.decided_fields is UNCHANGED else change.decided_fields)
    index_text(db, number)
    return True


def change_tags(db: Connection, number: int, tags: Mapping[str, TagValue | None] | None) -> None:
    """Set these tags, and remove those whose value is None; None in place of the mapping removes all."""
    if tags is None:
        db.execute("DELETE FROM tags WHERE image = ?", [number])
        return
    for name, value in tags.items():
        if value is None:
            db.execute("DELETE FROM tags WHERE image = ? AND name = ?", [number, composed(name)])
        else:
            set_tag(db, number, name, value)


def replace_captions(db: Connection, number: int, texts: Sequence[str]) -> None:
    """Give the picture these captions, in this order. Captions at the beginning that stay the same keep their slots."""
    new_texts = list(dict.fromkeys(texts))
    sql = "SELECT caption_id, text FROM captions WHERE image = ? AND text IS NOT NULL ORDER BY caption_id"
    num_same, last_kept = 0, 0
    for row in db.execute(sql, [number]).fetchall():
        if num_same == len(new_texts) or row["text"] != new_texts[num_same]:
            break
        num_same, last_kept = num_same + 1, row["caption_id"]
    erase_captions(db, number, after=last_kept)
    for text in new_texts[num_same:]:
        add_caption(db, number, text)
