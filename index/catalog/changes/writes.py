"""The steps of adding pictures to the catalog, each inside the caller's transaction."""

from collections.abc import Iterable, Sequence
from sqlite3 import Connection, Row

from index.catalog.changes.decided_fields import (
    DEFAULT_DATE,
    decide,
    decided_fields,
    forget_decided,
    undecided_tags,
)
from index.catalog.changes.deletion import erase, forget
from index.catalog.changes.description_bounds import Excess, OversizedDescription, count_description, excess_over
from index.catalog.filters import checked_value
from index.catalog.queries import AMONG, among
from index.catalog.text_index import composed, index_text
from index.records import FEATURES_ONLY, DetectedPicture, NewPicture

THERE_AGAIN = 0  # in place of the time when a record was found blank: its picture is back, and is to be read again


def upsert_pictures(
    db: Connection, pictures: Iterable[NewPicture], now: float, kept_since: float, bounded: bool
) -> set[int]:
    """The numbers of pictures that are added, restored or described as by `upsert_picture`.

    If `bounded`, raises OversizedDescription for those that would have too many captions or tags.
    """
    numbers, refused = set[int](), dict[str, Excess]()
    for picture in pictures:
        number, excess = upsert_picture(db, picture, now, kept_since)
        numbers.add(number)
        if excess is not None:
            refused[picture.image_id] = excess
    if bounded and refused:
        raise OversizedDescription(refused)
    return numbers


def upsert_picture(db: Connection, picture: NewPicture, now: float, kept_since: float) -> tuple[int, Excess | None]:
    """Add or restore the picture, or extend its description; its number, and the excess of its description if any.

    A picture deleted before `kept_since` starts afresh. Raises ValueError for a bad tag or caption.
    """
    sql = "SELECT number, slot, state, deleted_at, extension FROM images WHERE image_id = ?"
    row = db.execute(sql, [picture.image_id]).fetchone()
    extension = picture.extension
    if row is not None and FEATURES_ONLY not in (extension, row["extension"]):
        extension = row["extension"]  # the same bytes stay where they are
    if row is None or let_go(db, row, now, kept_since):
        number, slot = insert_picture(db, picture, extension, now), None
    else:
        number, slot = int(row["number"]), row["slot"]
        bring_back(db, row, picture.filename)
    counts_before = count_description(db, number)
    add_description(db, number, picture)
    excess = excess_over(count_description(db, number), counts_before) if picture.captions or picture.tags else None
    if slot is None:
        decide(db, number, picture.decided_fields)
    index_text(db, number)
    if slot is not None:
        assign_caption_slots(db, [number])
    return number, excess


def let_go(db: Connection, row: Row, now: float, kept_since: float) -> bool:
    """Free the id of a picture whose deletion is final; False for any other picture."""
    is_final = row["state"] == "deleted" and row["deleted_at"] < kept_since
    if is_final:
        erase(db, [row["number"]], now)
    if is_final or row["state"] == "erasing":
        forget(db, [row["number"]])  # its files belong to the new picture from now on
        return True
    return False


def insert_picture(db: Connection, picture: NewPicture, extension: str, now: float) -> int:
    """Add a picture, without its description; returns its number."""
    added_at = now if picture.added_at is None else picture.added_at
    sql = "INSERT INTO images (image_id, filename, extension, num_bytes, added_at) VALUES (?, ?, ?, ?, ?)"
    number = db.execute(sql, [picture.image_id, picture.filename, extension, picture.num_bytes, added_at]).lastrowid
    assert number is not None
    return number


def bring_back(db: Connection, row: Row, filename: str) -> None:
    """Handle a picture that is sent again: restore it if deleted or failed, and have lost regions detected again."""
    number = int(row["number"])
    if row["state"] in ("deleted", "failed"):
        restart_picture(db, number)
    if row["state"] == "failed":
        db.execute("UPDATE images SET filename = ? WHERE number = ?", [filename, number])
    if row["slot"] is not None:
        db.execute("UPDATE images SET starts = 0 WHERE number = ?", [number])
        read_again(db, [row["slot"]])


def restart_picture(db: Connection, number: int) -> None:
    """Make a deleted or failed picture active again: in its old slot, or queued as if it had never been tried."""
    reset = "deleted_at = NULL, failed_at = NULL, reason = NULL, attempts = 0, starts = 0"
    db.execute(f"UPDATE images SET {reset} WHERE number = ?", [number])


def read_again(db: Connection, slots: Iterable[int]) -> None:
    """Have blank records at these slots recomputed, since their pictures are available again."""
    db.execute(f"UPDATE blank_regions SET at = {THERE_AGAIN} WHERE slot {AMONG}", [among(slots)])


def requeue(db: Connection, image_id: str, job_id: str, now: float) -> bool:
    """Queue a picture that was set aside again, in a job of its own; False where it was not set aside."""
    changed = db.execute(
        "UPDATE images SET failed_at = NULL, reason = NULL, attempts = 0 WHERE image_id = ? AND state = 'failed'"
        " RETURNING number",
        [image_id],
    ).fetchall()
    for (number,) in changed:
        db.execute("INSERT INTO jobs (job_id, created_at) VALUES (?, ?)", [job_id, now])
        db.execute("INSERT INTO job_images (job_id, image) VALUES (?, ?)", [job_id, number])
    return bool(changed)


def add_description(db: Connection, number: int, picture: NewPicture) -> None:
    """Add new captions and tags; a date, or a tag of the same name, replaces the old one."""
    if picture.taken_at is not None:
        taken_at = checked_value("taken_at", picture.taken_at)
        db.execute("UPDATE images SET taken_at = ? WHERE number = ?", [taken_at, number])
        db.execute("DELETE FROM decided_fields WHERE image = ? AND field = ?", [number, DEFAULT_DATE])
    for text in picture.captions:
        add_caption(db, number, text)
    for name, value in picture.tags.items():
        set_tag(db, number, name, value)


def add_caption(db: Connection, number: int, text: str) -> None:
    """Add a caption unless the picture has it already. ValueError for an empty one."""
    if not text.strip():
        raise ValueError("a caption is empty")
    db.execute("INSERT INTO captions (image, text) VALUES (?, ?) ON CONFLICT (image, text) DO NOTHING", [number, text])


def set_tag(db: Connection, number: int, name: str, value: object) -> None:
    """Set a tag of the picture, replacing one of the same name. ValueError as `checked_value` raises it."""
    db.execute(
        "INSERT INTO tags (image, name, value) VALUES (?, ?, ?)"
        " ON CONFLICT (image, name) DO UPDATE SET value = excluded.value",
        [number, composed(name), checked_value(f"tag {name!r}", value)],
    )


def assign_slots(db: Connection, detected: Sequence[DetectedPicture]) -> None:
    """Assign region slots to the pictures, and the next caption slots to their captions.

    Raises ValueError where the slots leave a gap, or as `assign_slot` does.
    """
    first = next_slot(db)
    slots = [picture.slot for picture in detected]
    if slots != list(range(first, first + len(slots))):
        raise ValueError(f"the next region slots are {first} and on, not {slots}")
    assign_caption_slots(db, [assign_slot(db, picture) for picture in detected])


def assign_slot(db: Connection, picture: DetectedPicture) -> int:
    """Record the picture's region slot and its file's metadata, but for decided fields; returns its number.

    Raises ValueError for a picture that is unknown or already ready.
    """
    changed = db.execute(
        "UPDATE images SET slot = ?, width = ?, height = ?, extractor = ?, looks = ?, failed_at = NULL, reason = NULL,"
        " starts = 0 WHERE image_id = ? AND slot IS NULL RETURNING number",
        [
            picture.slot,
            picture.width,
            picture.height,
            picture.extractor,
            picture.perceptual_hash,
            picture.image_id,
        ],
    ).fetchall()
    if not changed:
        raise ValueError(f"picture {picture.image_id} is unknown or has a slot already")
    number = int(changed[0]["number"])
    add_file_metadata(db, number, picture)
    index_text(db, number)
    return number


def add_file_metadata(db: Connection, number: int, picture: DetectedPicture) -> None:
    """Add the file's captions, and the date and tags that the picture lacks, but for decided fields."""
    decided = decided_fields(db, number)
    if "taken_at" not in decided:
        dates = "?, taken_at, ?" if DEFAULT_DATE in decided else "taken_at, ?, ?"
        values = [picture.taken_at, picture.date_in_name, number]
        db.execute(f"UPDATE images SET taken_at = coalesce({dates}) WHERE number = ?", values)
    for text in picture.captions if "captions" not in decided else ():
        add_caption(db, number, text)
    known_names = {row["name"] for row in db.execute("SELECT name FROM tags WHERE image = ?", [number])}
    for name, value in undecided_tags(picture.tags, decided).items():
        if composed(name) not in known_names:
            set_tag(db, number, name, value)
    forget_decided(db, number)


def assign_caption_slots(db: Connection, numbers: Iterable[int]) -> None:
    """Assign the next caption slots to those captions of these pictures that have none."""
    slot = next_caption_slot(db)
    # "+" keeps SQLite from walking the index of slots, past every caption of every queued picture.
    sql = "SELECT caption_id FROM captions WHERE image = ? AND +slot IS NULL ORDER BY caption_id"
    for number in numbers:
        waiting = db.execute(sql, [number]).fetchall()
        for (caption_id,) in waiting:
            db.execute("UPDATE captions SET slot = ? WHERE caption_id = ?", [slot, caption_id])
            slot += 1


def next_slot(db: Connection) -> int:
    """The number of region slots assigned so far."""
    return int(db.execute("SELECT coalesce(max(slot) + 1, 0) FROM images").fetchone()[0])


def next_caption_slot(db: Connection) -> int:
    """The number of caption slots assigned so far."""
    return int(db.execute("SELECT coalesce(max(slot) + 1, 0) FROM captions").fetchone()[0])
