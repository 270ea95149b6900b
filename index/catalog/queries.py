"""Rows of the catalog as values, each query inside the caller's transaction."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import fields
from sqlite3 import Connection, Row

import numpy as np

from index.catalog.text_index import plain_letters
from index.records import (
    Caption,
    Failure,
    Image,
    Mask,
    TagUse,
    TagValue,
)

GONE = ("deleted", "erasing", "erased")  # states of pictures that are no longer shown
IS_GONE = f"state IN {GONE}"
AMONG = "IN (SELECT value FROM json_each(?))"  # any number of values in one parameter


def among(values: Iterable[str | int]) -> str:
    """The parameter for AMONG."""
    return json.dumps(list(values))


def to_images(db: Connection, rows: Sequence[Row]) -> list[Image]:
    """The pictures of complete rows of `images`, with their captions and tags."""
    if not rows:
        return []
    numbers = among(row["number"] for row in rows)
    captions: dict[int, list[str]] = defaultdict(list)
    for number, text in db.execute(
        f"SELECT image, text FROM captions WHERE image {AMONG} AND text IS NOT NULL ORDER BY caption_id", [numbers]
    ):
        captions[number].append(text)
    tags: dict[int, dict[str, TagValue]] = defaultdict(dict)
    for number, name, value in db.execute(f"SELECT image, name, value FROM tags WHERE image {AMONG}", [numbers]):
        tags[number][name] = value
    return [to_image(row, captions[row["number"]], tags[row["number"]]) for row in rows]


def find_image(db: Connection, image_id: str) -> Image | None:
    """The picture in any state; None when never seen, or erased."""
    rows = db.execute("SELECT * FROM images WHERE image_id = ? AND erased_at IS NULL", [image_id]).fetchall()
    return next(iter(to_images(db, rows)), None)


def to_image(row: Row, captions: Sequence[str], tags: dict[str, TagValue]) -> Image:
    """The picture of one row of `images`."""
    return Image(
        image_id=row["image_id"],
        filename=row["filename"],
        extension=row["extension"],
        num_bytes=row["num_bytes"],
        state=row["state"],
        slot=row["slot"],
        width=row["width"],
        height=row["height"],
        extractor=row["extractor"],
        taken_at=row["taken_at"],
        added_at=row["added_at"],
        deleted_at=row["deleted_at"],
        captions=tuple(captions),
        tags=tags,
        perceptual_hash=row["looks"],
    )


def select_captions(db: Connection, where: str, values: str) -> list[Caption]:
    """The captions that meet the condition `where`, which takes one parameter, in order of arrival."""
    rows = db.execute(
        "SELECT caption_id, captions.slot, image_id, coalesce(text, '') AS text,"
        " deleted_at IS NOT NULL OR text IS NULL AS deleted"
        f" FROM captions JOIN images ON number = image WHERE {where} ORDER BY caption_id",
        [values],
    )
    return [
        Caption(
            caption_id=row["caption_id"],
            slot=row["slot"],
            image_id=row["image_id"],
            text=row["text"],
            deleted=bool(row["deleted"]),
        )
        for row in rows
    ]


def known_among(db: Connection, image_ids: Iterable[str]) -> set[str]:
    """The subset of the ids whose pictures are queued or ready."""
    sql = f"SELECT image_id FROM images WHERE image_id {AMONG} AND +state IN ('queued', 'ready')"
    return {row["image_id"] for row in db.execute(sql, [among(image_ids)])}


def restorable_among(db: Connection, image_ids: Iterable[str], kept_since: float) -> set[str]:
    """The subset of the ids whose pictures were deleted, but not before `kept_since`."""
    sql = f"SELECT image_id FROM images WHERE image_id {AMONG} AND +state = 'deleted' AND deleted_at >= ?"
    return {row["image_id"] for row in db.execute(sql, [among(image_ids), kept_since])}


def to_failures(rows: Iterable[Row]) -> list[Failure]:
    """Failures from rows that have the columns of Failure."""
    columns = [field.name for field in fields(Failure)]
    return [Failure(**{name: row[name] for name in columns}) for row in rows]


def mask_of(slots: Iterable[Row], length: int) -> Mask:
    """[length] True at the slots in the first column of the rows."""
    mask = np.zeros(length, np.bool_)
    mask[np.fromiter((row[0] for row in slots), np.int64)] = True
    return mask


def months_taken(db: Connection) -> dict[str, int]:
    """Month ("2024-05") -> number of ready pictures taken in it, the latest first; "" counts those without a date."""
    rows = db.execute(
        # Whole seconds, the next lower ones: strftime rounds up.
        "SELECT coalesce(strftime('%Y-%m', CAST(taken_at AS INTEGER) - (taken_at < CAST(taken_at AS INTEGER)),"
        " 'unixepoch'), '') AS month, count(*) AS pictures"
        " FROM images WHERE state = 'ready' GROUP BY month ORDER BY month DESC"
    )
    return {row["month"]: row["pictures"] for row in rows}


def tag_uses(db: Connection, most_names: int, most_values: int, containing: str = "", after: str = "") -> list[TagUse]:
    """Tags of ready pictures with names after `after`, sorted by name; each with its most frequent values first.

    With `containing`, only values that contain this text, or all values where the name does; case and accents are
    ignored.
    """
    is_match = "instr(plain_letters(name), :part) OR instr(plain_letters(CAST(value AS TEXT)), :part)"
    ranked = (
        "SELECT name, value, uses, sum(uses) OVER names AS pictures, count(*) OVER names AS distinct_values,"
        " row_number() OVER (PARTITION BY name ORDER BY uses DESC, value) AS place,"
        " dense_rank() OVER (ORDER BY name) AS name_place"
        " FROM (SELECT name, value, count(*) AS uses FROM tags JOIN images ON number = image"
        "       WHERE state = 'ready' AND name > :after GROUP BY name, value)"
        f" WHERE {is_match if containing else 'TRUE'} WINDOW names AS (PARTITION BY name)"
    )
    rows = db.execute(
        f"SELECT * FROM ({ranked}) WHERE place <= :values AND name_place <= :names ORDER BY name, place",
        {"part": plain_letters(containing), "after": after, "values": most_values, "names": most_names},
    )
    values: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        values[row["name"]].append(row)
    return [
        TagUse(
            name=name,
            num_pictures=uses[0]["pictures"],
            num_values=uses[0]["distinct_values"],
            values=tuple((row["value"], row["uses"]) for row in uses),
        )
        for name, uses in values.items()
    ]
